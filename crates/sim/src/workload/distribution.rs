//! A distribution of flow sizes: the inverse of a cumulative table, interpolated linearly between its rows.

use pliant_proto::rng::Stream;
use pliant_proto::units::Bytes;
use thiserror::Error;

/// Most lines a table may have.
pub const MAX_LINES: usize = 1_000_000;
/// Largest size in a table: 1 PiB, which no run can carry and `f64` still holds to a fraction of a byte.
pub const MAX_SIZE_BYTES: u64 = 1 << 50;

const COLUMNS: &str = "size_bytes,cdf";
/// What the first line of a list of sizes may say.
const SIZE_HEADINGS: [&str; 3] = ["size_bytes", "bytes", "size"];

/// Why a distribution of sizes was refused.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum DistributionError {
    /// A line does not say what it must.
    #[error("{name}:{line}: {why}")]
    Line {
        /// The table's name or path.
        name: String,
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The table has no row.
    #[error("{name}: no rows; a table is \"{COLUMNS}\" and rows of a size in bytes and a probability")]
    Empty {
        /// The table's name or path.
        name: String,
    },
    /// The table has more than [`MAX_LINES`] lines.
    #[error("{name}: more than {MAX_LINES} lines")]
    TooLong {
        /// The table's name or path.
        name: String,
    },
    /// The file cannot be read.
    #[error("{name}: {why}")]
    Unreadable {
        /// The path.
        name: String,
        /// What the operating system says.
        why: String,
    },
    /// The name is neither built in nor a path.
    #[error("no workload is called \"{name}\" (a path contains a slash or a dot){hint}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The nearest name, or all there are.
        hint: String,
    },
    /// A fixed or uniform size that cannot be drawn.
    #[error("sizes from {least} to {most} bytes: each must be 1 to 2^50, the first not above the second")]
    Range {
        /// Smallest size in bytes.
        least: u64,
        /// Largest size in bytes.
        most: u64,
    },
}

/// One row: the probability of a size of at most `size` is `cdf`.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Point {
    /// Bytes, a multiple of one half.
    size: f64,
    cdf: f64,
}

/// A distribution of flow sizes in bytes.
///
/// A draw inverts the table at a uniform number, linearly between rows, and rounds to the nearest byte, at least one.
/// Because sizes in a table are whole, rounding changes the mean by nothing (the midpoint rule is exact on a straight
/// line); only sizes below half a byte, raised to one, add their probability to it. Two rows of the same size are a
/// point mass, as is a first row above zero; two rows of the same probability are a gap.
#[derive(Clone, PartialEq, Debug)]
pub struct Distribution {
    points: Vec<Point>,
}

impl Distribution {
    /// Every flow has `bytes` bytes.
    pub fn fixed(bytes: u64) -> Result<Self, DistributionError> {
        Self::uniform(bytes, bytes)
    }

    /// Every whole number of bytes in `least..=most` is equally likely.
    pub fn uniform(least: u64, most: u64) -> Result<Self, DistributionError> {
        if least == 0 || most > MAX_SIZE_BYTES || least > most {
            return Err(DistributionError::Range { least, most });
        }
        // Half a byte to both sides, so that rounding gives the ends as much probability as the others.
        let first = Point { size: least as f64 - 0.5, cdf: 0.0 };
        Ok(Self { points: vec![first, Point { size: most as f64 + 0.5, cdf: 1.0 }] })
    }

    /// Reads a table: comment lines that begin with `#`, the line `size_bytes,cdf`, then rows in which neither column
    /// falls and the last probability is one. `name` appears in errors.
    pub fn parse(name: &str, text: &str) -> Result<Self, DistributionError> {
        let mut points: Vec<Point> = Vec::new();
        let (mut seen_columns, mut last_line) = (false, 0);
        for (index, content) in text.lines().enumerate() {
            let (line, content) = (index + 1, content.trim());
            if line > MAX_LINES {
                return Err(DistributionError::TooLong { name: name.to_owned() });
            }
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let fail = |why: String| DistributionError::Line { name: name.to_owned(), line, why };
            if !seen_columns && points.is_empty() && !content.contains(',') {
                return Self::of_sizes(name, text);
            }
            if !seen_columns {
                seen_columns = content == COLUMNS;
                if !seen_columns {
                    return Err(fail(format!("the first line that is not a comment must be \"{COLUMNS}\"")));
                }
                continue;
            }
            let point = parse_row(content, points.last()).map_err(fail)?;
            points.push(point);
            last_line = line;
        }
        let Some(last) = points.last() else {
            return Err(DistributionError::Empty { name: name.to_owned() });
        };
        if last.cdf != 1.0 {
            let why = format!("the last probability is {}, not 1", last.cdf);
            return Err(DistributionError::Line { name: name.to_owned(), line: last_line, why });
        }
        // Rows after the first probability of one are sizes that never occur.
        points.truncate(points.partition_point(|point| point.cdf < 1.0) + 1);
        Ok(Self { points })
    }

    /// Reads a plain list: one size a line, in bytes or with a unit, each as likely as the others; lines that begin with `#` are
    /// comments, and the first other line may name the column.
    fn of_sizes(name: &str, text: &str) -> Result<Self, DistributionError> {
        let mut sizes: Vec<u64> = Vec::new();
        let mut is_first = true;
        for (index, content) in text.lines().enumerate() {
            let (line, content) = (index + 1, content.trim());
            if line > MAX_LINES {
                return Err(DistributionError::TooLong { name: name.to_owned() });
            }
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let is_heading = std::mem::take(&mut is_first) && SIZE_HEADINGS.contains(&content);
            if is_heading {
                continue;
            }
            let size = content.parse::<u64>().ok().or_else(|| content.parse::<Bytes>().ok().map(|bytes| bytes.0));
            match size {
                Some(size) if (1..=MAX_SIZE_BYTES).contains(&size) => sizes.push(size),
                _ => {
                    let shown: String = content.chars().take(40).collect();
                    let why = format!(
                        "\"{shown}\" is not a size of 1 byte to 1 PiB; a file has one size a line (1500, or 20kB), or rows below \
                         the line \"{COLUMNS}\""
                    );
                    return Err(DistributionError::Line { name: name.to_owned(), line, why });
                }
            }
        }
        if sizes.is_empty() {
            return Err(DistributionError::Empty { name: name.to_owned() });
        }
        sizes.sort_unstable();
        let all = sizes.len() as f64;
        let (mut points, mut below) = (Vec::new(), 0);
        for same in sizes.chunk_by(|a, b| a == b) {
            let up_to = below + same.len();
            let size = same[0] as f64;
            points.extend([below, up_to].map(|count| Point { size, cdf: count as f64 / all }));
            below = up_to;
        }
        Ok(Self { points })
    }

    /// The same distribution stretched so that its smallest size is `least` and its largest `most`.
    pub fn scaled_to(&self, least: u64, most: u64) -> Result<Self, DistributionError> {
        let fits = Self::uniform(least, most)?;
        let (low, high) = (self.points[0].size, self.points[self.points.len() - 1].size);
        if low == high {
            return Ok(fits);
        }
        // Sizes of a table are multiples of one half.
        let stretch = (most - least) as f64 / (high - low);
        let size = |size: f64| (2.0 * (least as f64 + (size - low) * stretch)).round() / 2.0;
        Ok(Self { points: self.points.iter().map(|point| Point { size: size(point.size), cdf: point.cdf }).collect() })
    }

    /// The smallest size that a share `u` of all flows does not exceed; `u` is taken into `0.0..=1.0`.
    pub fn quantile(&self, u: f64) -> u64 {
        let above = self.points.partition_point(|point| point.cdf <= u);
        let size = match (above.checked_sub(1).map(|below| self.points[below]), self.points.get(above)) {
            (Some(low), Some(high)) => {
                let share = (u - low.cdf) / (high.cdf - low.cdf);
                (low.size + (high.size - low.size) * share).min(high.size)
            }
            (None, Some(first)) => first.size,
            (_, None) => self.points[above - 1].size,
        };
        // Ties go up, except at the top of a uniform range, whose last half byte belongs to the largest size.
        (libm::floor(size + 0.5) as u64).clamp(1, self.max_bytes())
    }

    /// Draws a size in bytes, at least 1.
    pub fn sample(&self, stream: &mut Stream) -> u64 {
        self.quantile(stream.unit())
    }

    /// The size that every draw gives, if there is only one.
    pub fn only_size(&self) -> Option<u64> {
        let most = self.max_bytes();
        (self.points[0].size >= most as f64 - 0.5).then_some(most)
    }

    /// The largest size in bytes that a draw can give.
    pub fn max_bytes(&self) -> u64 {
        (self.points[self.points.len() - 1].size as u64).max(1)
    }

    /// The mean of what [`Distribution::sample`] draws, in closed form.
    pub fn mean_bytes(&self) -> f64 {
        self.survival_sum(0, 1)
    }

    /// The sum over all `j >= 0` of the probability that a size exceeds `offset + j * stride` bytes, in closed form:
    /// on every straight piece of the table the terms are an arithmetic series. With stride 1 it is the mean, with
    /// stride MSS the mean number of packets.
    pub(super) fn survival_sum(&self, offset: u64, stride: u64) -> f64 {
        // A size exceeds k when the interpolated value reaches k + 1/2; doubled, everything is whole.
        let terms_below = |size: f64| ((2.0 * size) as u64).saturating_sub(2 * offset + 1).div_ceil(2 * stride);
        let at = |term: u64| (offset + term * stride) as f64 + 0.5;
        let first = self.points[0];
        let mut sum = terms_below(first.size) as f64;
        if offset == 0 {
            // Sizes that round to zero are raised to one byte.
            sum += self.cdf(0.5);
        }
        for pair in self.points.windows(2) {
            let (from, to) = (terms_below(pair[0].size), terms_below(pair[1].size));
            if from < to {
                let ends = interpolate(pair[0], pair[1], at(from)) + interpolate(pair[0], pair[1], at(to - 1));
                sum += (to - from) as f64 * (1.0 - ends / 2.0);
            }
        }
        sum
    }

    /// The probability that the interpolated value lies below `size`.
    fn cdf(&self, size: f64) -> f64 {
        let above = self.points.partition_point(|point| point.size < size);
        match (above.checked_sub(1), self.points.get(above)) {
            (Some(below), Some(high)) => interpolate(self.points[below], *high, size),
            (None, _) => 0.0,
            (_, None) => 1.0,
        }
    }
}

fn interpolate(low: Point, high: Point, size: f64) -> f64 {
    low.cdf + (high.cdf - low.cdf) * ((size - low.size) / (high.size - low.size))
}

fn parse_row(content: &str, previous: Option<&Point>) -> Result<Point, String> {
    let columns = content.split(',').map(str::trim).collect::<Vec<_>>();
    let [size, cdf] = columns[..] else {
        return Err(format!("{} columns instead of two", columns.len()));
    };
    let size: u64 = size.parse().map_err(|_| format!("\"{size}\" is not a whole number of bytes"))?;
    if size > MAX_SIZE_BYTES {
        return Err(format!("{size} bytes are more than 2^50"));
    }
    let cdf: f64 = cdf.parse().map_err(|_| format!("\"{cdf}\" is not a probability"))?;
    if !(0.0..=1.0).contains(&cdf) {
        return Err(format!("the probability {cdf} is not in [0, 1]"));
    }
    let point = Point { size: size as f64, cdf };
    match previous {
        Some(previous) if point.size < previous.size => Err(format!("the size falls from {} to {size}", previous.size)),
        Some(previous) if cdf < previous.cdf => Err(format!("the probability falls from {} to {cdf}", previous.cdf)),
        _ => Ok(point),
    }
}
