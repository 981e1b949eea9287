//! Constant-rate senders that offer more than a link carries.

use pliant_proto::congestion::AnyController;
use pliant_proto::packet::{TrafficClass, WireFormat};
use pliant_proto::switch::marker::MarkerConfig;
use pliant_proto::time::Span;
use pliant_proto::transport::tcp::TcpConfig;
use pliant_proto::transport::udp::UdpConfig;
use pliant_proto::units::Rate;

use crate::common::{MSS, TestBed, Watch, across, at_ms, bottleneck, cable, dropped, dumbbell, fifo, udp};

/// An offer of rho times the capacity loses 1 - 1/rho of it and gets the capacity, within 1 %, by one sender or four.
#[test]
fn overload_loses_what_does_not_fit() {
    let config = TcpConfig { wire: WireFormat::ETHERNET, ..TcpConfig::default() };
    for (senders, percent) in [(1, 90), (1, 120), (1, 200), (1, 390), (4, 150), (4, 400)] {
        let bed = TestBed::new(dumbbell(senders, cable(40, 5), cable(10, 5)), fifo(100, MarkerConfig::None), &config);
        let rate = Rate::from_bits_per_sec(percent * 100_000_000 / u64::from(senders));
        let class = TrafficClass::new(0);
        let sender = UdpConfig { rate, payload: MSS, wire: WireFormat::ETHERNET, class };
        let watch = Watch::new(bottleneck(senders), at_ms(10), Span::from_us(100), senders as usize);
        let outcome = bed.run(&across(senders), |_| udp::<AnyController>(sender), watch, at_ms(110));
        let rho = percent as f64 / 100.0;
        let counters = &outcome.ports[bottleneck(senders)][0];
        let lost = dropped(&outcome.ports) as f64 / (counters.admitted.packets as f64 + dropped(&outcome.ports) as f64);
        let goodput: f64 = outcome.recorder.goodputs(at_ms(110)).iter().sum();
        let carried = goodput / (10e9 * 1460.0 / 1538.0);
        println!("{senders} senders, rho {rho}: lost {lost:.4}, carried {carried:.4}");
        assert!((lost - (1.0 - 1.0 / rho).max(0.0)).abs() <= 0.01, "rho {rho}: lost {lost}");
        assert!((carried - rho.min(1.0)).abs() <= 0.01, "rho {rho}: carried {carried}");
    }
}
