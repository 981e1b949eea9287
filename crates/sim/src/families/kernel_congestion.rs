//! Congestion controls of the operating system, by name.

use pliant_proto::choices;

choices! {
    /// Congestion control of the operating system, as Linux calls it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum KernelCongestion {
        /// CUBIC.
        Cubic = "cubic",
        /// Reno.
        Reno = "reno",
        /// BBR, of which the simulator has no model.
        Bbr = "bbr",
    }
}
