//! Fluid model of weighted fair congestion control on one bottleneck.
//!
//! Equations (4) to (7) of Luo et al., "Efficient Multisource Data Delivery in Edge Cloud With Rateless Parallel Push":
//!
//! ```text
//! dW_i/dt = 1/R − W_i·α·p(t − R̄) / (2·R·θ_i)         windows, in packets
//! dα/dt   = g/R · (p(t − R̄) − α)                     fraction of marked packets
//! dq/dt   = Σ W_i/R − C                              queue, in packets
//! R       = d + q/C,   p = 1 where q > K,   R̄ = d + K/C
//! ```
//!
//! Integrated by Euler's method in steps of R̄/100, with the marks of the last R̄ in a delay line. The paper steps by a
//! whole round trip, which overshoots visibly. All flows see the same marks, so α is common to them.

use std::collections::VecDeque;

/// Steps per R̄.
const STEPS_PER_RTT: usize = 100;
/// Most steps of one run: about a minute of computing.
const MAX_STEPS: f64 = 1e9;

/// A bottleneck.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bottleneck {
    /// C, in packets per second; above 0.
    pub packets_per_s: f64,
    /// d, the round-trip propagation time in seconds; from 0.
    pub propagation_s: f64,
    /// K, the queue in packets above which packets are marked; from 0, above 0 where `propagation_s` is 0.
    pub threshold: f64,
    /// Packets that the queue holds; from `threshold`.
    pub limit: f64,
}

/// A long-lived flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Flow {
    /// θ, its weight; above 0.
    pub weight: f64,
    /// When it starts, in seconds.
    pub start_s: f64,
    /// When it stops, in seconds; infinite if never.
    pub stop_s: f64,
}

/// What is integrated.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    /// The bottleneck that all flows share.
    pub bottleneck: Bottleneck,
    /// g, in (0, 1]; 1/16 in the paper.
    pub gain: f64,
    /// The flows.
    pub flows: Vec<Flow>,
    /// How long, in seconds.
    pub duration_s: f64,
    /// Time between samples, in seconds. Shorter than a step it is a step.
    pub sample_s: f64,
}

/// The model's state, averaged over one sample interval.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// End of the interval, in seconds.
    pub at_s: f64,
    /// Windows in packets; 0 of a flow that does not run.
    pub windows: Vec<f64>,
    /// Rates in packets per second: W/R.
    pub rates: Vec<f64>,
    /// α.
    pub alpha: f64,
    /// Queue in packets.
    pub queue: f64,
    /// Round-trip time in seconds.
    pub rtt_s: f64,
}

/// The stable state that equations (18) and (19) predict.
#[derive(Clone, PartialEq, Debug)]
pub struct Equilibrium {
    /// Mean windows in packets.
    pub windows: Vec<f64>,
    /// Mean α.
    pub alpha: f64,
    /// Mean queue in packets.
    pub queue: f64,
}

/// Why a model cannot be integrated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FluidError {
    /// No rate.
    #[error("the rate must be a number of packets per second above 0")]
    Rate,
    /// Negative propagation time.
    #[error("the propagation time must be a number from 0")]
    Propagation,
    /// No round-trip time at all.
    #[error("the threshold must be a number from 0, and above 0 where there is no propagation time")]
    Threshold,
    /// A queue that cannot reach the threshold.
    #[error("the limit must not be below the threshold")]
    Limit,
    /// Gain outside its range.
    #[error("the gain must lie in (0, 1]")]
    Gain,
    /// No flow, or a weight that is none.
    #[error("at least one flow is needed, and each weight must be a number above 0")]
    Weight,
    /// A flow that stops before it starts.
    #[error("a flow must start at 0 s or later and stop after its start")]
    Lifetime,
    /// Nothing to integrate, or too much.
    #[error("duration and sample interval must be above 0, and the duration at most 10,000,000 round trips")]
    Duration,
}

impl Bottleneck {
    /// R̄ = d + K/C, in seconds.
    pub fn mean_rtt_s(&self) -> f64 {
        self.propagation_s + self.threshold / self.packets_per_s
    }

    /// Packets in flight when the queue stands at the threshold: Cd + K.
    pub fn packets_in_flight(&self) -> f64 {
        self.packets_per_s * self.propagation_s + self.threshold
    }

    /// The stable state of flows with these weights (18, 19). Where Σθ exceeds (Cd + K)/2 every packet is marked, and
    /// windows stay at 2θ, whatever queue that makes.
    pub fn equilibrium(&self, weights: &[f64]) -> Equilibrium {
        let (sum, in_flight) = (weights.iter().sum::<f64>(), self.packets_in_flight());
        let alpha = (2.0 * sum / in_flight).sqrt();
        if alpha <= 1.0 {
            let windows = weights.iter().map(|weight| weight / sum * in_flight).collect();
            return Equilibrium { windows, alpha, queue: self.threshold };
        }
        let windows = weights.iter().map(|weight| 2.0 * weight).collect();
        let queue = 2.0 * sum - self.packets_per_s * self.propagation_s;
        Equilibrium { windows, alpha: 1.0, queue: queue.min(self.limit) }
    }
}

impl Model {
    /// Checks every range.
    pub fn check(&self) -> Result<(), FluidError> {
        let Bottleneck { packets_per_s, propagation_s, threshold, limit } = self.bottleneck;
        let require = |holds: bool, error| if holds { Ok(()) } else { Err(error) };
        let from_zero = |value: f64| value >= 0.0 && value.is_finite();
        let above_zero = |value: f64| value > 0.0 && value.is_finite();
        require(above_zero(packets_per_s), FluidError::Rate)?;
        require(from_zero(propagation_s), FluidError::Propagation)?;
        require(from_zero(threshold) && threshold + propagation_s > 0.0, FluidError::Threshold)?;
        require(limit >= threshold, FluidError::Limit)?;
        require(self.gain > 0.0 && self.gain <= 1.0, FluidError::Gain)?;
        require(!self.flows.is_empty() && self.flows.iter().all(|flow| above_zero(flow.weight)), FluidError::Weight)?;
        let lives = |flow: &Flow| from_zero(flow.start_s) && flow.stop_s > flow.start_s;
        require(self.flows.iter().all(lives), FluidError::Lifetime)?;
        let in_range = above_zero(self.duration_s) && above_zero(self.sample_s);
        require(in_range && self.duration_s <= self.longest_s(), FluidError::Duration)
    }

    /// Longest duration that is integrated, in seconds.
    pub fn longest_s(&self) -> f64 {
        MAX_STEPS * self.step_s()
    }

    fn step_s(&self) -> f64 {
        self.bottleneck.mean_rtt_s() / STEPS_PER_RTT as f64
    }

    /// Integrates, and calls `sample` for each interval. Windows start at 1, the queue and α at 0.
    pub fn run(&self, mut sample: impl FnMut(Sample)) -> Result<(), FluidError> {
        self.check()?;
        let step = self.step_s();
        let mut state = State::new(self);
        let mut mean = Mean::new(self.flows.len());
        let per_sample = (self.sample_s / step).round().max(1.0) as u64;
        let steps = (self.duration_s / step).round().max(1.0) as u64;
        for done in 1..=steps {
            state.advance(self, (done - 1) as f64 * step, step);
            mean.add(&state);
            if done % per_sample == 0 || done == steps {
                sample(mean.take(done as f64 * step));
            }
        }
        Ok(())
    }

    /// The state averaged from `from_s` to the end.
    pub fn steady(&self, from_s: f64) -> Result<Sample, FluidError> {
        self.check()?;
        let step = self.step_s();
        let mut state = State::new(self);
        let mut mean = Mean::new(self.flows.len());
        let steps = (self.duration_s / step).round().max(1.0) as u64;
        for done in 0..steps {
            let now = done as f64 * step;
            state.advance(self, now, step);
            if now >= from_s || done + 1 == steps {
                mean.add(&state);
            }
        }
        Ok(mean.take(self.duration_s))
    }
}

struct State {
    windows: Vec<f64>,
    alpha: f64,
    queue: f64,
    rtt_s: f64,
    /// Whether packets were marked, for each step of the last R̄, oldest first.
    marks: VecDeque<bool>,
}

impl State {
    fn new(model: &Model) -> Self {
        Self {
            windows: vec![0.0; model.flows.len()],
            alpha: 0.0,
            queue: 0.0,
            rtt_s: 0.0,
            marks: VecDeque::from(vec![false; STEPS_PER_RTT]),
        }
    }

    fn advance(&mut self, model: &Model, now_s: f64, step_s: f64) {
        let link = &model.bottleneck;
        // Without propagation time and queue the round trip would be nothing: it takes a packet's own time at least.
        self.rtt_s = (link.propagation_s + self.queue / link.packets_per_s).max(1.0 / link.packets_per_s);
        let marked = if self.marks.pop_front().expect("a line of fixed length") { 1.0 } else { 0.0 };
        self.marks.push_back(self.queue > link.threshold);
        let round_trips = step_s / self.rtt_s;
        let mut arriving = 0.0;
        for (window, flow) in self.windows.iter_mut().zip(&model.flows) {
            if now_s < flow.start_s || now_s >= flow.stop_s {
                *window = 0.0;
                continue;
            }
            let change = 1.0 - *window * self.alpha * marked / (2.0 * flow.weight);
            *window = (*window + round_trips * change).max(1.0);
            arriving += *window / self.rtt_s;
        }
        self.alpha = (self.alpha + model.gain * round_trips * (marked - self.alpha)).clamp(0.0, 1.0);
        self.queue = (self.queue + step_s * (arriving - link.packets_per_s)).clamp(0.0, link.limit);
    }
}

/// Sums of states.
struct Mean {
    count: f64,
    sum: Sample,
}

impl Mean {
    fn new(flows: usize) -> Self {
        let zeros = vec![0.0; flows];
        let sum = Sample { at_s: 0.0, windows: zeros.clone(), rates: zeros, alpha: 0.0, queue: 0.0, rtt_s: 0.0 };
        Self { count: 0.0, sum }
    }

    fn add(&mut self, state: &State) {
        self.count += 1.0;
        for (at, window) in state.windows.iter().enumerate() {
            self.sum.windows[at] += window;
            self.sum.rates[at] += window / state.rtt_s;
        }
        self.sum.alpha += state.alpha;
        self.sum.queue += state.queue;
        self.sum.rtt_s += state.rtt_s;
    }

    fn take(&mut self, at_s: f64) -> Sample {
        let count = self.count;
        let mean = |values: &[f64]| values.iter().map(|sum| sum / count).collect();
        let sum = std::mem::replace(self, Self::new(self.sum.windows.len())).sum;
        Sample {
            at_s,
            windows: mean(&sum.windows),
            rates: mean(&sum.rates),
            alpha: sum.alpha / count,
            queue: sum.queue / count,
            rtt_s: sum.rtt_s / count,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn model(bottleneck: Bottleneck, weights: &[f64], round_trips: f64) -> Model {
        let flow = |&weight: &f64| Flow { weight, start_s: 0.0, stop_s: f64::INFINITY };
        let rtt = bottleneck.mean_rtt_s();
        let flows = weights.iter().map(flow).collect();
        Model { bottleneck, gain: 1.0 / 16.0, flows, duration_s: round_trips * rtt, sample_s: rtt }
    }

    fn steady(model: &Model) -> Sample {
        model.steady(model.duration_s / 2.0).unwrap()
    }

    #[track_caller]
    fn assert_near(value: f64, expected: f64, part: f64) {
        assert!((value / expected - 1.0).abs() <= part, "{value} is not within {part} of {expected}");
    }

    /// 20 Mbit/s of 1210-byte packets, marking at 30: the set-up of the paper's figure 2.
    const FIGURE_2: Bottleneck =
        Bottleneck { packets_per_s: 2066.0, propagation_s: 1e-4, threshold: 30.0, limit: f64::INFINITY };

    /// Figure 2: alone a flow has α of 0.258; with one of weight 4 beside it 0.577, and windows of 1 to 4.
    #[test]
    fn figure_2_has_the_papers_stable_states() {
        let alone = steady(&model(FIGURE_2, &[1.0], 2000.0));
        assert_near(alone.alpha, 0.258, 0.05);
        assert_near(alone.windows[0], 30.2, 0.1);
        assert_near(alone.queue, 30.0, 0.1);
        let both = steady(&model(FIGURE_2, &[1.0, 4.0], 2000.0));
        assert_near(both.alpha, 0.577, 0.05);
        assert_near(both.windows[1] / both.windows[0], 4.0, 0.05);
        assert_near(both.rates.iter().sum(), 2066.0, 0.01);
    }

    /// Figure 7: one flow of the largest weight, 55, beside nine of the least, 0.5, takes 102 times as much as they.
    #[test]
    fn figure_7_has_the_papers_ratio() {
        let bottleneck = Bottleneck { packets_per_s: 1e6, propagation_s: 80e-6, threshold: 30.0, limit: 100.0 };
        let weights: Vec<f64> = std::iter::once(51.0).chain([0.5; 9]).collect();
        let state = steady(&model(bottleneck, &weights, 5000.0));
        assert_near(state.rates[0] / state.rates[1], 102.0, 0.02);
    }

    /// Beyond Σθ = (Cd + K)/2 the queue is 2Σθ − Cd: 100 packets overflow at 179 flows of Algorithm 1, and at 90 of
    /// weight 1, the paper's counts.
    #[test]
    fn overload_leaves_the_queue_of_the_papers_incast_counts() {
        let bottleneck = Bottleneck { packets_per_s: 1e6, propagation_s: 80e-6, threshold: 30.0, limit: f64::INFINITY };
        let incast: Vec<f64> = std::iter::repeat_n(0.5, 178).chain([1.0]).collect();
        for weights in [incast, vec![1.0; 90]] {
            assert_near(steady(&model(bottleneck, &weights, 2000.0)).queue, 100.0, 0.01);
            assert_near(bottleneck.equilibrium(&weights).queue, 100.0, 1e-9);
        }
    }

    /// A flow that leaves gives its rate to the others, and samples tile the run.
    #[test]
    fn flows_come_and_go() {
        let mut model = model(FIGURE_2, &[1.0, 4.0], 1000.0);
        model.flows[1] = Flow { weight: 4.0, start_s: model.duration_s * 0.25, stop_s: model.duration_s * 0.75 };
        model.sample_s = model.duration_s / 8.0;
        let mut samples = Vec::new();
        model.run(|sample| samples.push(sample)).unwrap();
        assert_eq!(samples.len(), 8);
        assert_eq!((samples[0].rates[1], samples[7].rates[1]), (0.0, 0.0));
        assert_near(samples[4].rates[1] / samples[4].rates[0], 4.0, 0.1);
        assert_near(samples[7].rates[0], 2066.0, 0.02);
        assert_near(samples[7].at_s, model.duration_s, 1e-6);
    }

    #[test]
    fn what_cannot_be_integrated_is_refused() {
        let good = model(FIGURE_2, &[1.0], 10.0);
        let with = |change: &dyn Fn(&mut Model)| {
            let mut model = good.clone();
            change(&mut model);
            model.run(|_| {})
        };
        assert_eq!(with(&|_| {}), Ok(()));
        assert_eq!(with(&|model| model.bottleneck.packets_per_s = 0.0), Err(FluidError::Rate));
        assert_eq!(with(&|model| model.bottleneck.propagation_s = f64::NAN), Err(FluidError::Propagation));
        let no_rtt = |model: &mut Model| (model.bottleneck.propagation_s, model.bottleneck.threshold) = (0.0, 0.0);
        assert_eq!(with(&no_rtt), Err(FluidError::Threshold));
        assert_eq!(with(&|model| model.bottleneck.limit = 29.0), Err(FluidError::Limit));
        assert_eq!(with(&|model| model.gain = 1.5), Err(FluidError::Gain));
        assert_eq!(with(&|model| model.flows[0].weight = -1.0), Err(FluidError::Weight));
        assert_eq!(with(&|model| model.flows.clear()), Err(FluidError::Weight));
        assert_eq!(with(&|model| model.flows[0].stop_s = 0.0), Err(FluidError::Lifetime));
        assert_eq!(with(&|model| model.duration_s = 1e9), Err(FluidError::Duration));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Theorem 1: whatever the weights, as long as Σθ ≤ (Cd + K)/2, bandwidth is divided in proportion to them, and
        /// α is what equation (18) says. Not exactly: the theorem takes the mean of Wαp for the product of the means,
        /// but the window of a small weight follows the marks within a round trip or two.
        #[test]
        fn bandwidth_is_proportional_to_weights(
            weights in proptest::collection::vec(0.5f64..20.0, 2..8), pipe in 10.0f64..200.0, threshold in 10.0f64..100.0,
        ) {
            let propagation_s = 1e-4;
            let bottleneck = Bottleneck {
                packets_per_s: pipe / propagation_s, propagation_s, threshold, limit: f64::INFINITY,
            };
            let sum: f64 = weights.iter().sum();
            prop_assume!(sum <= bottleneck.packets_in_flight() / 2.0);
            // A window is at least one packet.
            let equilibrium = bottleneck.equilibrium(&weights);
            prop_assume!(equilibrium.windows.iter().all(|window| *window > 2.0));
            let state = steady(&model(bottleneck, &weights, 4000.0));
            let total: f64 = state.rates.iter().sum();
            for (rate, weight) in state.rates.iter().zip(&weights) {
                prop_assert!((rate / total * sum / weight - 1.0).abs() < 0.15, "{state:?}");
            }
            prop_assert!((state.alpha / equilibrium.alpha - 1.0).abs() < 0.15, "{state:?} {equilibrium:?}");
        }
    }
}
