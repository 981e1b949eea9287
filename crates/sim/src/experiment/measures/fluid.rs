//! The fluid model of weighted fair congestion control, beside what the simulator gives.

use rhai::{Array, Dynamic, Engine, ImmutableString, Map};

use super::flows::numbers;
use super::values::{number, seconds};
use crate::experiment::context::Failure;
use crate::fluid::{Bottleneck, Flow, Model, Sample};
use crate::suggest;

/// Keys of the map that describes a model.
const KEYS: [&str; 9] = [
    "packets_per_s",
    "propagation_s",
    "threshold",
    "limit",
    "weights",
    "starts_s",
    "stops_s",
    "duration_s",
    "sample_s",
];

/// A model's samples.
#[derive(Clone)]
pub(in crate::experiment) struct Fluid(Vec<Sample>);

fn model(map: &Map) -> Result<Model, Failure> {
    if let Some(unknown) = map.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let names = KEYS.map(str::to_owned);
        return Err(suggest::unknown("key of a fluid model", unknown, &names).as_str().into());
    }
    let fail = |key: &str| Failure::from(format!("fluid: `{key}` is missing, or is not a number").as_str());
    let value = |key: &str| map.get(key).and_then(number).ok_or_else(|| fail(key));
    let list = |key: &str| {
        let list = map.get(key).and_then(|value| value.clone().try_cast::<Array>()).ok_or_else(|| fail(key))?;
        numbers(&list)
    };
    let (weights, starts, stops) = (list("weights")?, list("starts_s")?, list("stops_s")?);
    if starts.len() != weights.len() || stops.len() != weights.len() {
        return Err("fluid: as many starts and stops as weights are needed".into());
    }
    let times = starts.into_iter().zip(stops);
    Ok(Model {
        bottleneck: Bottleneck {
            packets_per_s: value("packets_per_s")?,
            propagation_s: value("propagation_s")?,
            threshold: value("threshold")?,
            limit: value("limit")?,
        },
        gain: 1.0 / 16.0,
        flows: weights
            .into_iter()
            .zip(times)
            .map(|(weight, (start_s, stop_s))| Flow { weight, start_s, stop_s })
            .collect(),
        duration_s: value("duration_s")?,
        sample_s: value("sample_s")?,
    })
}

impl Fluid {
    fn new(map: &Map) -> Result<Self, Failure> {
        let mut samples = Vec::new();
        model(map)?
            .run(|sample| samples.push(sample))
            .map_err(|error| error.to_string().as_str().into())
            .map(|()| Self(samples))
    }

    /// Time and value of a quantity: `alpha`, `queue`, `rtt_us`, or `window 0`, `rate 1` of a flow.
    fn series(&self, quantity: &str) -> Result<Vec<(f64, f64)>, Failure> {
        let (name, flow) = quantity.split_once(' ').unwrap_or((quantity, "0"));
        let flow =
            flow.parse::<usize>().ok().filter(|&flow| self.0.first().is_some_and(|first| flow < first.rates.len()));
        let flow = flow.ok_or_else(|| Failure::from(format!("fluid: `{quantity}` names no flow").as_str()))?;
        let value: Box<dyn Fn(&Sample) -> f64> = match name {
            "alpha" => Box::new(|sample| sample.alpha),
            "queue" => Box::new(|sample| sample.queue),
            "rtt_us" => Box::new(|sample| sample.rtt_s * 1e6),
            "window" => Box::new(move |sample| sample.windows[flow]),
            "rate" => Box::new(move |sample| sample.rates[flow]),
            _ => {
                let names = ["alpha", "queue", "rtt_us", "window", "rate"].map(str::to_owned);
                return Err(suggest::unknown("quantity", name, &names).as_str().into());
            }
        };
        Ok(self.0.iter().map(|sample| (sample.at_s, value(sample))).collect())
    }
}

pub(super) fn register_model(engine: &mut Engine) {
    engine.register_fn("fluid", |map: Map| Fluid::new(&map));
}

/// Pairs of seconds and value.
pub(super) fn register_series(engine: &mut Engine) {
    engine.register_fn("fluid_series", |fluid: Fluid, quantity: ImmutableString| {
        let pair = |(at, value): (f64, f64)| Dynamic::from_array([at, value].map(Dynamic::from_float).to_vec());
        Ok::<Array, Failure>(fluid.series(&quantity)?.into_iter().map(pair).collect())
    });
}

/// The mean of a quantity in a window of time.
pub(super) fn register_mean(engine: &mut Engine) {
    engine.register_fn("fluid_mean", |fluid: Fluid, quantity: ImmutableString, from: Dynamic, until: Dynamic| {
        let window = seconds(&from)?..seconds(&until)?;
        let values: Vec<f64> = fluid
            .series(&quantity)?
            .into_iter()
            .filter(|(at, _)| window.contains(at))
            .map(|(_, value)| value)
            .collect();
        if values.is_empty() {
            return Err(Failure::from("fluid: no sample lies in the window"));
        }
        Ok(values.iter().sum::<f64>() / values.len() as f64)
    });
}
