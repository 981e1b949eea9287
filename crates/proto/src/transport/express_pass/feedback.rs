//! Credit feedback control: the rate of a flow's credits follows the share of them that was lost.
//!
//! Losing credits is cheap, and their loss tells in advance how much data would have been too much. Once per round trip
//! the receiver compares the loss with a target that shrinks as the rate approaches its greatest value.
//!
//! | law | below the target loss | above it | source |
//! |---|---|---|---|
//! | [`Delivered`](FeedbackLaw::Delivered) | a step of weight w towards the greatest rate; w grows by 0.05 | the rate that arrived, and w / 2 | the published ns-2 simulators |
//! | [`Multiplicative`](FeedbackLaw::Multiplicative) | the same, towards (1 + target) times the greatest rate; w goes half way to its maximum | rate × (1 − loss) × (1 + target), and w / 2 | SIGCOMM 2017, algorithm 1 |
//! | [`Bic`](FeedbackLaw::Bic) | half way to the last rate that was too much, and ever faster beyond it | the rate that arrived | FlexPass (EuroSys 2023), section 6.2 |

/// How the rate reacts to the loss of credits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FeedbackLaw {
    /// Cuts to the rate at which credits arrived.
    Delivered,
    /// Cuts by the loss.
    Multiplicative,
    /// Searches for the last rate that was too much.
    Bic,
}

/// Settings of a feedback law. Rates are in bytes of credits per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FeedbackConfig {
    /// The law. Default [`Bic`](FeedbackLaw::Bic), whose parameters FlexPass's text gives.
    pub law: FeedbackLaw,
    /// First rate as a fraction of the greatest, in (0, 1]. Default 1/2.
    pub initial_rate: f64,
    /// First weight w of a step up (not `Bic`). Default 1/16.
    pub initial_weight: f64,
    /// Least weight. Default 0.01.
    pub minimum_weight: f64,
    /// Greatest weight, at most 1. Default 0.5.
    pub maximum_weight: f64,
    /// Target loss at a rate of zero, from which it falls to zero at the greatest rate. For `Multiplicative` the target
    /// at every rate. In (0, 1). Default 1/8.
    pub target_loss: f64,
    /// `Bic`: how much faster than doubling the rate leaves the last rate that was too high. Default 2 (FlexPass's α).
    pub aggressiveness: f64,
    /// `Bic`: least change, in credits per round trip. Default 1 (FlexPass's S_min).
    pub minimum_step_credits: f64,
    /// `Bic`: greatest change. Default 50 Mbit/s, 6.25 MB/s (FlexPass's S_max).
    pub maximum_step: f64,
    /// `Bic`: from this rate on the target loss stays at `target_loss`. Default 64 734 895, the full rate of 10 Gbit/s.
    /// It is limited to a flow's greatest rate.
    pub base_rate: f64,
}

impl Default for FeedbackConfig {
    fn default() -> Self {
        Self {
            law: FeedbackLaw::Bic,
            initial_rate: 0.5,
            initial_weight: 1.0 / 16.0,
            minimum_weight: 0.01,
            maximum_weight: 0.5,
            target_loss: 0.125,
            aggressiveness: 2.0,
            minimum_step_credits: 1.0,
            maximum_step: 6_250_000.0,
            base_rate: 64_734_895.0,
        }
    }
}

impl FeedbackConfig {
    /// Checks every range.
    pub fn check(&self) -> Result<(), &'static str> {
        let fraction = |value: f64| value > 0.0 && value <= 1.0;
        let require = |holds: bool, why| if holds { Ok(()) } else { Err(why) };
        require(fraction(self.initial_rate), "initial_rate must lie in (0, 1]")?;
        let ordered = self.minimum_weight <= self.initial_weight && self.initial_weight <= self.maximum_weight;
        let weights = fraction(self.minimum_weight) && fraction(self.maximum_weight);
        require(weights && ordered, "weights must lie in (0, 1] and the first between the least and the greatest")?;
        require(self.target_loss > 0.0 && self.target_loss < 1.0, "target_loss must lie in (0, 1)")?;
        let finite = |value: f64| value >= 0.0 && value.is_finite();
        require(finite(self.aggressiveness), "aggressiveness must not be negative")?;
        require(finite(self.minimum_step_credits), "the least step must not be negative")?;
        require(self.maximum_step > 0.0, "the greatest step must be above 0")?;
        require(self.base_rate > 0.0, "the base rate must be above 0")
    }
}

/// Measurements of one update period.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period {
    /// Credits that should have arrived, at least one.
    pub(crate) total: u32,
    /// Credits that were lost.
    pub(crate) dropped: u32,
    /// Its length, in seconds.
    pub(crate) seconds: f64,
    /// Round-trip time, in seconds.
    pub(crate) rtt: f64,
    /// Mean bytes of a credit.
    pub(crate) credit: f64,
}

/// The state of a feedback law.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Feedback {
    rate: f64,
    greatest: f64,
    weight: f64,
    /// `Bic`: the last rate that was too high.
    too_much: f64,
    /// The previous period had no loss above the target.
    increased: bool,
}

impl Feedback {
    /// A rate that may grow to `greatest`, above zero.
    pub(crate) fn new(config: &FeedbackConfig, greatest: f64) -> Self {
        assert!(greatest > 0.0, "credits need a rate");
        let base = config.base_rate.min(greatest);
        Self {
            rate: config.initial_rate * greatest,
            greatest,
            weight: config.initial_weight,
            too_much: base * 0.5,
            increased: false,
        }
    }

    /// Starts over, at `scale` times the first rate.
    pub(crate) fn restart(&mut self, config: &FeedbackConfig, scale: f64) {
        *self = Self::new(config, self.greatest);
        self.rate *= scale;
    }

    /// Bytes of credits per second.
    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }

    /// Ends an update period.
    pub(crate) fn update(&mut self, config: &FeedbackConfig, period: &Period) {
        let loss = f64::from(period.dropped) / f64::from(period.total);
        let slowest = period.credit / period.rtt;
        match config.law {
            FeedbackLaw::Delivered => {
                let target = (1.0 - self.rate / self.greatest) * config.target_loss;
                if loss > target {
                    self.rate = self.rate.min(arrived(period, target));
                    self.lose_weight(config);
                } else {
                    self.gain_weight(|weight| (weight + 0.05).min(config.maximum_weight));
                    self.rate += self.weight * (self.greatest - self.rate);
                }
            }
            FeedbackLaw::Multiplicative => {
                let target = config.target_loss;
                if loss > target {
                    self.rate *= (1.0 - loss) * (1.0 + target);
                    self.lose_weight(config);
                } else {
                    self.gain_weight(|weight| (weight + config.maximum_weight) * 0.5);
                    self.rate += self.weight * (self.greatest * (1.0 + target) - self.rate);
                }
            }
            FeedbackLaw::Bic => self.search(config, period, loss),
        }
        self.rate = self.rate.min(self.greatest).max(slowest);
    }

    fn lose_weight(&mut self, config: &FeedbackConfig) {
        self.weight = (self.weight * 0.5).max(config.minimum_weight);
        self.increased = false;
    }

    fn gain_weight(&mut self, grown: impl Fn(f64) -> f64) {
        if self.increased {
            self.weight = grown(self.weight);
        }
        self.increased = true;
    }

    fn search(&mut self, config: &FeedbackConfig, period: &Period, loss: f64) {
        let least = config.minimum_step_credits * period.credit / period.rtt;
        let step = |change: f64| change.max(least).min(config.maximum_step.max(least));
        let base = config.base_rate.min(self.greatest);
        let target = (1.0 - self.rate / base).max(0.0) * config.target_loss;
        let target = if self.rate >= base { config.target_loss } else { target };
        if loss > target {
            self.too_much = self.rate;
            self.rate -= step(self.rate - arrived(period, target));
        } else if self.too_much - self.rate > 0.05 * self.too_much {
            self.rate += step((self.too_much - self.rate) * 0.5);
        } else if self.rate < self.too_much {
            self.rate += step(self.too_much - self.rate);
        } else {
            self.rate += step((self.rate - self.too_much) * (1.0 + config.aggressiveness));
        }
    }
}

/// The rate at which credits arrived, plus the fraction `target` that may be lost.
fn arrived(period: &Period, target: f64) -> f64 {
    if period.dropped >= period.total {
        return period.credit / period.rtt;
    }
    period.credit * f64::from(period.total - period.dropped) / period.seconds * (1.0 + target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const RATE: f64 = 64_734_895.0;

    fn config(law: FeedbackLaw) -> FeedbackConfig {
        FeedbackConfig { law, initial_weight: 0.5, ..FeedbackConfig::default() }
    }

    /// A period of one round trip of 40 us at `rate` with so much `loss`.
    fn period(rate: f64, loss: f64) -> Period {
        let total = (rate * 40e-6 / 84.0).max(1.0) as u32;
        Period { total, dropped: (f64::from(total) * loss) as u32, seconds: 40e-6, rtt: 40e-6, credit: 84.0 }
    }

    /// Without loss a weight of one half halves the distance to the greatest rate: 0.75, 0.875, 0.9375, 0.96875.
    #[test]
    fn a_lone_flow_halves_the_distance() {
        let config = config(FeedbackLaw::Delivered);
        let mut feedback = Feedback::new(&config, RATE);
        let shares: Vec<f64> = (0..4)
            .map(|_| {
                feedback.update(&config, &period(feedback.rate(), 0.0));
                feedback.rate() / RATE
            })
            .collect();
        for (share, expected) in shares.iter().zip([0.75, 0.875, 0.9375, 0.96875]) {
            assert!((share - expected).abs() < 1e-9, "{shares:?}");
        }
    }

    /// The weight grows only from the second period without excess on, and halves with each excess.
    #[test]
    fn the_weight_remembers_the_period_before() {
        let config = FeedbackConfig { law: FeedbackLaw::Delivered, ..FeedbackConfig::default() };
        let mut feedback = Feedback::new(&config, RATE);
        let mut weights = Vec::new();
        for loss in [0.0, 0.0, 0.5, 0.0, 0.0] {
            feedback.update(&config, &period(feedback.rate(), loss));
            weights.push((feedback.weight * 1e6) as u32);
        }
        assert_eq!(weights, [62_500, 112_500, 56_250, 56_250, 106_250]);
    }

    /// A cut goes to what arrived, whatever was sent: half of the credits lost, half of the rate left.
    #[test]
    fn a_cut_goes_to_the_rate_that_arrived() {
        for law in [FeedbackLaw::Delivered, FeedbackLaw::Bic] {
            let config = FeedbackConfig { maximum_step: f64::INFINITY, initial_rate: 1.0, ..config(law) };
            let mut feedback = Feedback::new(&config, RATE);
            let period = Period { total: 1000, dropped: 500, seconds: 1000.0 * 84.0 / RATE, rtt: 1e-3, credit: 84.0 };
            feedback.update(&config, &period);
            let target = if law == FeedbackLaw::Bic { 1.125 } else { 1.0 };
            assert!((feedback.rate() / RATE - 0.5 * target).abs() < 1e-3, "{law:?}: {}", feedback.rate() / RATE);
        }
    }

    /// SIGCOMM 2017: rate × (1 − loss) × (1 + target).
    #[test]
    fn the_multiplicative_cut() {
        let config = FeedbackConfig { target_loss: 0.1, initial_rate: 1.0, ..config(FeedbackLaw::Multiplicative) };
        let mut feedback = Feedback::new(&config, RATE);
        feedback.update(&config, &Period { total: 1000, dropped: 400, seconds: 40e-6, rtt: 40e-6, credit: 84.0 });
        assert!((feedback.rate() / RATE - 0.6 * 1.1).abs() < 1e-9);
    }

    /// BIC goes half way to the last rate that was too much, and no step exceeds the greatest.
    #[test]
    fn bic_searches_within_its_steps() {
        let config = FeedbackConfig { law: FeedbackLaw::Bic, initial_rate: 1.0, ..FeedbackConfig::default() };
        let mut feedback = Feedback::new(&config, RATE);
        feedback.update(&config, &Period { total: 100, dropped: 90, seconds: 1e-4, rtt: 1e-4, credit: 84.0 });
        assert!((feedback.rate() - (RATE - 6_250_000.0)).abs() < 1.0, "the cut is bounded");
        let before = feedback.rate();
        feedback.update(&config, &period(before, 0.0));
        assert!((feedback.rate() - (before + 3_125_000.0)).abs() < 1.0, "half of the way back");
    }

    /// Whatever is lost, the rate stays between one credit per round trip and the greatest.
    #[test]
    fn rates_keep_their_bounds() {
        for law in [FeedbackLaw::Delivered, FeedbackLaw::Multiplicative, FeedbackLaw::Bic] {
            let config = config(law);
            let mut feedback = Feedback::new(&config, RATE);
            for step in 0..200u32 {
                let total = step % 7 + 1;
                let dropped = total.min(step % 5);
                feedback.update(&config, &Period { total, dropped, seconds: 1e-4, rtt: 1e-4, credit: 84.0 });
                assert!(feedback.rate() >= 84.0 / 1e-4 && feedback.rate() <= RATE, "{law:?}: {}", feedback.rate());
            }
        }
    }
}
