//! Which port leads to which address.

/// Ports by address: station addresses and IPv4.
#[derive(Clone, Debug, Default)]
pub struct ForwardingTable(Vec<(u64, u16)>);

/// Tells station addresses from those of IPv4.
const STATION: u64 = 1 << 63;

impl ForwardingTable {
    /// The port with this station address. False if another one has it.
    pub fn add_mac(&mut self, mac: [u8; 6], port: u16) -> bool {
        self.add(mac_key(mac), port)
    }

    /// The port with this address of IPv4. False if another one has it.
    pub fn add_ipv4(&mut self, address: u32, port: u16) -> bool {
        self.add(u64::from(address), port)
    }

    fn add(&mut self, key: u64, port: u16) -> bool {
        match self.0.binary_search_by_key(&key, |(key, _)| *key) {
            Ok(at) => self.0[at].1 == port,
            Err(at) => {
                self.0.insert(at, (key, port));
                true
            }
        }
    }

    /// The port that a frame goes to.
    #[inline]
    pub fn find(&self, mac: [u8; 6], ipv4: Option<u32>) -> Option<u16> {
        self.get(mac_key(mac)).or_else(|| self.get(u64::from(ipv4?)))
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u16> {
        self.0.binary_search_by_key(&key, |(key, _)| *key).ok().map(|at| self.0[at].1)
    }
}

fn mac_key(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    STATION | u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}
