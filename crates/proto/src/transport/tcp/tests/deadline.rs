//! A flow whose size is told while it runs.

use super::*;
use crate::transport::tcp::DeadlineSender;

/// The deadline counts the bytes that it is told of, whether they are given yet or not, and goes when it is taken away.
#[test]
fn a_deadline_counts_what_was_announced() {
    let sender = TcpSender::new(Arc::new(config()), TestController::fixed(4));
    let mut end = End::new(DeadlineSender::new(sender, 0, None, None));
    let late = |end: &End<DeadlineSender<TestController>>| {
        end.events.iter().filter(|(_, event)| matches!(event, Event::WillBeLate { .. })).count()
    };
    let mut tell = |at, command| {
        end.feed(Input::Command(us(at), command));
        (end.transport.statistics().done_by, late(&end))
    };
    assert_eq!(tell(0, Command::Send { bytes: MSS }), (None, 0), "it has no time yet");
    assert_eq!(tell(5, Command::SetSize(3 * MSS)), (None, 0));
    assert_eq!(tell(10, Command::SetDoneBy(Span::from_us(100))), (Some(us(110)), 0));
    assert_eq!(tell(20, Command::Send { bytes: MSS }), (Some(us(110)), 0));
    assert_eq!(tell(30, Command::SetDoneBy(Span::MAX)), (None, 0), "taken away");
    assert_eq!(tell(200, Command::SetDoneBy(Span::from_us(100))), (Some(us(300)), 0));
    end.feed(Input::Timeout(us(300)));
    assert_eq!(late(&end), 1, "two of three segments were given, and nothing is across");
    end.feed(Input::Timeout(us(400)));
    assert_eq!(late(&end), 1, "it is said once");
}
