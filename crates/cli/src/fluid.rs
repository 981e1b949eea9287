//! `pliant fluid`: what theory says of weighted fair congestion control on one link.

use std::fmt::Write;

use clap::Args;
use pliant_proto::time::Span;
use pliant_proto::units::{Bytes, Rate};
use pliant_sim::fluid::{Bottleneck, Equilibrium, Flow, FluidError, Model, Sample};
use serde::Serialize;

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::flags;
use crate::stdout::print;

const CHECKED: &str = "the model was checked";

const AFTER_HELP: &str = "\
Examples:
  # two flows of weights 1 and 4 on the link of PPUSH's figure 2
  pliant fluid 1 4
  # the second from 2 s to 6 s; windows, alpha and queue over time
  pliant fluid 1 4@2s..6s --duration 8s --csv > figure2.csv
  pliant fluid 51 0.5 0.5 --rate 10Gbit/s --propagation 80us --limit 100 \\
      --duration 100ms
  pliant fluid 1 1 --json | jq .integrated.alpha";

/// Integrates the fluid model of weighted fair congestion control (PPUSH, equations 4 to 7).
///
/// Prints mean windows, rates, alpha and queue beside the stable state that equations 18 and 19 predict.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Weights (theta) above 0, of which `push` takes 0.5 and more, one per flow; `4@2s..6s` runs from 2 s to 6 s, `4@2s`
    /// from 2 s on
    #[arg(required = true, value_name = "WEIGHT[@START[..STOP]]", value_parser = parse_flow)]
    flows: Vec<Flow>,
    /// Rate of the link
    #[arg(long, default_value = "20Mbit/s", value_parser = flags::above_zero::<Rate>())]
    rate: Rate,
    /// Size of a packet on the wire
    #[arg(long, value_name = "BYTES", default_value = "1210B", value_parser = flags::above_zero::<Bytes>())]
    packet: Bytes,
    /// Round-trip propagation time
    #[arg(long, value_name = "TIME", default_value = "100us")]
    propagation: Span,
    /// Queue above which packets are marked, in packets
    #[arg(long, value_name = "PACKETS", default_value_t = 30.0, value_parser = flags::number("from 0", |packets| packets >= 0.0))]
    threshold: f64,
    /// Packets that the queue holds [default: no limit]
    #[arg(long, value_name = "PACKETS", value_parser = flags::positive())]
    limit: Option<f64>,
    /// Weight of the newest marks in alpha (g)
    #[arg(long, default_value_t = 1.0 / 16.0, value_parser = flags::number("above 0 and up to 1", |gain| gain > 0.0 && gain <= 1.0))]
    gain: f64,
    /// Simulated time
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = flags::above_zero::<Span>())]
    duration: Span,
    /// Start of the means in the table [default: the middle]
    #[arg(long, value_name = "TIME", conflicts_with = "csv")]
    from: Option<Span>,
    /// Time between rows of --csv [default: a thousandth of the duration]
    #[arg(long, value_name = "TIME", requires = "csv", value_parser = flags::above_zero::<Span>())]
    sample: Option<Span>,
    /// Prints the series over time as CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Prints JSON in place of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let duration_s = arguments.duration.as_secs_f64();
    let model = Model {
        bottleneck: Bottleneck {
            packets_per_s: arguments.rate.bits_per_sec() as f64 / 8.0 / arguments.packet.0 as f64,
            propagation_s: arguments.propagation.as_secs_f64(),
            threshold: arguments.threshold,
            limit: arguments.limit.unwrap_or(f64::INFINITY),
        },
        gain: arguments.gain,
        flows: arguments.flows.clone(),
        duration_s,
        sample_s: arguments.sample.map_or(duration_s / 1000.0, Span::as_secs_f64),
    };
    model.check().map_err(|error| refused(error, arguments, &model))?;
    if arguments.csv {
        print(&csv(&model))?;
        return Ok(ExitStatus::Done);
    }
    let from_s = arguments.from.map_or(duration_s / 2.0, Span::as_secs_f64);
    if from_s >= duration_s {
        let from = arguments.from.unwrap_or_default();
        return Err(CliError::User(format!("--from {from}: it must lie before --duration ({})", arguments.duration)));
    }
    let integrated = model.steady(from_s).expect(CHECKED);
    // Theory speaks of the flows that run at the end.
    let present = |flow: &Flow| flow.start_s < duration_s && flow.stop_s >= duration_s;
    let weights: Vec<f64> = model.flows.iter().filter(|flow| present(flow)).map(|flow| flow.weight).collect();
    let predicted = (!weights.is_empty()).then(|| model.bottleneck.equilibrium(&weights));
    let text = if arguments.json {
        json(&integrated, predicted.as_ref())
    } else {
        table(&model, &integrated, predicted.as_ref(), present)
    };
    print(&text)?;
    Ok(ExitStatus::Done)
}

fn parse_flow(text: &str) -> Result<Flow, String> {
    let seconds = |text: &str| text.parse::<Span>().map(Span::as_secs_f64).map_err(|error| error.to_string());
    let (weight, life) = text.split_once('@').map_or((text, None), |(weight, life)| (weight, Some(life)));
    let weight = flags::positive()(weight).map_err(|why| format!("`{weight}` is no weight: {why}"))?;
    let (start, stop) = life.map_or(("0s", ""), |life| life.split_once("..").unwrap_or((life, "")));
    let stop_s = if stop.is_empty() { f64::INFINITY } else { seconds(stop)? };
    let start_s = seconds(start)?;
    if stop_s <= start_s {
        return Err("it must stop after its start".to_owned());
    }
    Ok(Flow { weight, start_s, stop_s })
}

/// What ranges of single flags do not catch, by the flags that decide it.
fn refused(error: FluidError, arguments: &Arguments, model: &Model) -> CliError {
    let threshold = arguments.threshold;
    CliError::User(match error {
        FluidError::Threshold => format!("--threshold {threshold}: it must be above 0 where --propagation is 0s"),
        FluidError::Limit => {
            format!("--limit {}: it must be at least --threshold ({threshold})", model.bottleneck.limit)
        }
        FluidError::Duration => {
            let (duration, most) = (arguments.duration, model.longest_s());
            format!("--duration {duration}: at most {most:.3} s with these --rate, --propagation and --threshold")
        }
        other => other.to_string(),
    })
}

fn csv(model: &Model) -> String {
    let mut text = "time_s,alpha,queue_packets,rtt_us".to_owned();
    for flow in 0..model.flows.len() {
        write!(text, ",window_{flow}_packets,rate_{flow}_packets_per_s").expect("a string takes all");
    }
    text.push('\n');
    let mut row = |sample: Sample| {
        write!(text, "{},{},{},{}", sample.at_s, sample.alpha, sample.queue, sample.rtt_s * 1e6)?;
        let flows = sample.windows.iter().zip(&sample.rates);
        flows.into_iter().try_for_each(|(window, rate)| write!(text, ",{window},{rate}"))?;
        writeln!(text)
    };
    model.run(|sample| row(sample).expect("a string takes all")).expect(CHECKED);
    text
}

fn table(
    model: &Model,
    integrated: &Sample,
    predicted: Option<&Equilibrium>,
    present: impl Fn(&Flow) -> bool,
) -> String {
    let mut text = String::new();
    let mut line = |cells: [&str; 5]| {
        let [name, weight, window, theory, rate] = cells;
        writeln!(text, "{name:<8}{weight:>10}{window:>14}{theory:>14}{rate:>14}").expect("a string takes all");
    };
    line(["flow", "weight", "window", "predicted", "packets/s"]);
    let mut windows = predicted.iter().flat_map(|state| &state.windows);
    for (number, flow) in model.flows.iter().enumerate() {
        let theory = if present(flow) { windows.next() } else { None };
        line([
            &number.to_string(),
            &flow.weight.to_string(),
            &format!("{:.2}", integrated.windows[number]),
            &theory.map_or("–".to_owned(), |window| format!("{window:.2}")),
            &format!("{:.0}", integrated.rates[number]),
        ]);
    }
    let theory =
        |value: fn(&Equilibrium) -> f64| predicted.map_or("–".to_owned(), |state| format!("{:.3}", value(state)));
    line(["alpha", "", &format!("{:.3}", integrated.alpha), &theory(|state| state.alpha), ""]);
    line(["queue", "", &format!("{:.3}", integrated.queue), &theory(|state| state.queue), ""]);
    line(["RTT us", "", &format!("{:.1}", integrated.rtt_s * 1e6), "", ""]);
    text
}

#[derive(Serialize)]
struct Json<'a> {
    integrated: State<'a>,
    predicted: Option<State<'a>>,
}

#[derive(Serialize)]
struct State<'a> {
    alpha: f64,
    queue_packets: f64,
    windows_packets: &'a [f64],
    #[serde(skip_serializing_if = "Option::is_none")]
    rates_packets_per_s: Option<&'a [f64]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_us: Option<f64>,
}

fn json(integrated: &Sample, predicted: Option<&Equilibrium>) -> String {
    let document = Json {
        integrated: State {
            alpha: integrated.alpha,
            queue_packets: integrated.queue,
            windows_packets: &integrated.windows,
            rates_packets_per_s: Some(&integrated.rates),
            rtt_us: Some(integrated.rtt_s * 1e6),
        },
        predicted: predicted.map(|state| State {
            alpha: state.alpha,
            queue_packets: state.queue,
            windows_packets: &state.windows,
            rates_packets_per_s: None,
            rtt_us: None,
        }),
    };
    serde_json::to_string_pretty(&document).expect("numbers and lists")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_read_with_their_lifetimes() {
        let forever = f64::INFINITY;
        for (text, weight, start_s, stop_s) in
            [("4", 4.0, 0.0, forever), ("0.5@2s", 0.5, 2.0, forever), ("1@20ms..1s", 1.0, 0.02, 1.0)]
        {
            assert_eq!(parse_flow(text), Ok(Flow { weight, start_s, stop_s }));
        }
        for text in ["x", "1@2", "1@2s..x", "", "0", "1@2s..2s"] {
            assert!(parse_flow(text).is_err());
        }
    }
}
