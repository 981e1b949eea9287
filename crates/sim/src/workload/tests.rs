use pliant_proto::packet::WireFormat;
use pliant_proto::rng::Stream;
use proptest::prelude::*;

use super::*;

fn built_in(name: &str) -> Distribution {
    Size::Workload(name.to_owned()).distribution(Path::new(".")).unwrap()
}

fn table(rows: &str) -> Result<Distribution, DistributionError> {
    Distribution::parse("t.csv", &format!("size_bytes,cdf\n{rows}"))
}

/// A table in the place of a name is the distribution that a file with it would be, and its mistakes have lines.
#[test]
fn a_workload_may_be_the_table_itself() {
    let text = "size_bytes,cdf\n100,0\n300,1\n";
    assert_eq!(built_in(text), Distribution::parse("t.csv", text).unwrap());
    let error = Size::Workload("size_bytes,cdf\n100,2\n".to_owned()).distribution(Path::new(".")).unwrap_err();
    assert!(error.to_string().starts_with("table of sizes:2: "), "{error}");
}

fn ethernet() -> PacketFormat {
    PacketFormat::new(1460, WireFormat::ETHERNET)
}

/// Each table's header states the mean that the table has; REFLEX's 2921 flows/s follow from the first.
#[test]
fn means_are_those_in_the_headers() {
    assert!((built_in("web_search").mean_bytes() - 1_711_550.0).abs() < 1e-6);
    for (name, text) in BUILT_IN {
        let stated = text.lines().find_map(|line| line.strip_prefix("# mean_bytes: ")).unwrap();
        let mean = built_in(name).mean_bytes();
        assert_eq!(format!("{mean:.1}"), stated, "{name}");
        assert!(text.contains("# rule: linear interpolation between rows"), "{name}");
    }
    let flows_per_second = 0.2 * 20.0 * 10e9 / (8.0 * built_in("web_search").mean_bytes());
    assert_eq!(flows_per_second.round(), 2921.0);
}

/// A plain list of sizes: each line as likely as the others, so that quantiles, mean and mean packets are those of the list.
#[test]
fn a_list_of_sizes_is_their_distribution() {
    let list = Distribution::parse("sizes.txt", "# measured\nbytes\n3000\n1kB\n\n1000\n20kB\n").unwrap();
    assert_eq!([0.0, 0.49, 0.5, 0.74, 0.75, 1.0].map(|u| list.quantile(u)), [1000, 1000, 3000, 3000, 20_000, 20_000]);
    assert!((list.mean_bytes() - 6250.0).abs() < 1e-9);
    let mut stream = Stream::named(1, "list");
    let drawn = (0..40_000).filter(|_| list.sample(&mut stream) == 1000).count();
    assert!((drawn as f64 / 20_000.0 - 1.0).abs() < 0.03, "{drawn}");
    let packets = ethernet();
    let by_hand: f64 = [1000, 1000, 3000, 20_000].map(|size| packets.wire_bytes(size) as f64).iter().sum::<f64>() / 4.0;
    assert!((packets.mean_wire_bytes(&list) / by_hand - 1.0).abs() < 1e-9);
    let error = |text: &str| Distribution::parse("sizes.txt", text).unwrap_err().to_string();
    assert!(
        error("1000\nabout 3000\n").starts_with("sizes.txt:2: \"about 3000\" is not a size"),
        "{}",
        error("1000\nx")
    );
    assert!(error("1000\nbytes\n").starts_with("sizes.txt:2: "), "a heading comes first");
    assert!(error("0\n").starts_with("sizes.txt:1: ") && error("words\n1\n").starts_with("sizes.txt:1: "));
    assert!(error("bytes\n").contains("no rows"));
}

/// The key-value table keeps the mean of the model it tabulates (193.9 bytes) to 0.2 %.
#[test]
fn the_key_value_table_follows_its_formula() {
    let sizes = built_in("key_value");
    assert!((sizes.mean_bytes() / 193.892 - 1.0).abs() < 0.002);
    let (scale, shape, tail) = (214.476, 0.348_238, 0.558_45);
    for size in [30.0, 100.0, 1000.0, 10_000.0] {
        let cdf = 1.0 - tail * libm::pow(1.0 + shape * (size - 14.0) / scale, -1.0 / shape);
        assert!((sizes.quantile(cdf) as f64 / size - 1.0).abs() < 0.02, "{size}");
    }
}

/// A draw has the stated mean: within five standard errors, the second moment taken from the draws.
#[test]
fn sampled_means_agree() {
    for (name, _) in BUILT_IN {
        let (sizes, mut stream) = (built_in(name), Stream::named(1, name));
        let n = 200_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let size = sizes.sample(&mut stream) as f64;
            sum += size;
            squares += size * size;
        }
        let mean = sum / f64::from(n);
        let error = ((squares / f64::from(n) - mean * mean) / f64::from(n)).sqrt();
        assert!((mean - sizes.mean_bytes()).abs() < 5.0 * error, "{name}: {mean} against {}", sizes.mean_bytes());
    }
}

/// Quantiles on a row, between rows and at both ends.
#[test]
fn quantiles_are_known() {
    let sizes = built_in("web_search");
    for (u, size) in [(0.0, 4000), (0.15, 10_000), (0.175, 15_000), (0.7, 1_000_000), (0.85, 3_500_000)] {
        assert_eq!(sizes.quantile(u), size);
    }
    assert_eq!((sizes.quantile(1.0), sizes.quantile(7.0), sizes.max_bytes()), (30_000_000, 30_000_000, 30_000_000));
}

/// A first row above zero and two rows of the same size are point masses, a flat piece is a gap.
#[test]
fn point_masses_and_gaps() {
    let sizes = table("10,0.25\n20,0.25\n20,0.75\n30,1\n").unwrap();
    assert_eq!([0.0, 0.2, 0.25, 0.5, 0.7, 0.875].map(|u| sizes.quantile(u)), [10, 10, 20, 20, 20, 25]);
    assert_eq!(sizes.mean_bytes(), 0.25 * 10.0 + 0.5 * 20.0 + 0.25 * 25.0);
    let never = table("10,0.5\n20,1\n30,1\n").unwrap();
    assert_eq!((never.max_bytes(), never.quantile(1.0)), (20, 20));
    let zero = table("0,0.5\n100,0.5\n100,1\n").unwrap();
    assert_eq!((zero.quantile(0.0), zero.mean_bytes()), (1, 50.5));
}

/// Fixed and uniform sizes: closed-form means, and both ends of a range as likely as its middle.
#[test]
fn fixed_and_uniform_sizes() {
    let mut stream = Stream::named(1, "uniform");
    let fixed = Distribution::fixed(1_000_000).unwrap();
    assert_eq!((fixed.mean_bytes(), fixed.sample(&mut stream), fixed.quantile(1.0)), (1e6, 1_000_000, 1_000_000));
    let die = Distribution::uniform(1, 6).unwrap();
    assert!((die.mean_bytes() - 3.5).abs() < 1e-12);
    let mut counts = [0u32; 6];
    for _ in 0..60_000 {
        counts[die.sample(&mut stream) as usize - 1] += 1;
    }
    assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
    assert!(Distribution::fixed(0).is_err() && Distribution::uniform(5, 4).is_err());
    assert!(Distribution::fixed(MAX_SIZE_BYTES + 1).is_err());
}

/// Errors name the file, the line and what is wrong.
#[test]
fn errors_name_file_and_line() {
    for (rows, message) in [
        ("", "t.csv: no rows"),
        ("10,0\n5,1\n", "t.csv:3: the size falls from 10 to 5"),
        ("10,0.5\n20,0.4\n", "t.csv:3: the probability falls from 0.5 to 0.4"),
        ("10,-0.1\n", "t.csv:2: the probability -0.1 is not in [0, 1]"),
        ("10,1.5\n", "t.csv:2: the probability 1.5 is not in [0, 1]"),
        ("10,NaN\n", "t.csv:2: the probability NaN is not in [0, 1]"),
        ("10,0.5\n# end\n", "t.csv:2: the last probability is 0.5, not 1"),
        ("10\n", "t.csv:2: 1 columns instead of two"),
        ("1,0,0\n", "t.csv:2: 3 columns instead of two"),
        ("-1,0\n", "t.csv:2: \"-1\" is not a whole number of bytes"),
        ("2000000000000000,1\n", "t.csv:2: 2000000000000000 bytes are more than 2^50"),
    ] {
        let error = table(rows).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    let error = Distribution::parse("t.csv", "# a comment\n1,1\n").unwrap_err();
    assert!(error.to_string().starts_with("t.csv:2: the first line that is not a comment"));
    let long = "#\n".repeat(MAX_LINES + 1);
    assert_eq!(Distribution::parse("t", &long), Err(DistributionError::TooLong { name: "t".to_owned() }));
    let unknown = Size::Workload("websearch".to_owned()).distribution(Path::new(".")).unwrap_err();
    assert!(unknown.to_string().contains("web_search"));
    let missing = Size::Workload("./none.csv".to_owned()).distribution(Path::new(".")).unwrap_err();
    assert!(missing.to_string().starts_with("./none.csv: "));
}

#[test]
fn size_texts() {
    assert_eq!("1MB".parse::<SizeRange>().unwrap().size(), Size::Fixed(1_000_000));
    let range = "5B..1MiB".parse::<SizeRange>().unwrap();
    assert_eq!((range.size(), range.to_string()), (Size::Uniform(5, 1 << 20), "5B..1MiB".to_owned()));
    assert!("5".parse::<SizeRange>().is_err());
}

/// Bytes on the wire of single sizes: whole segments, a short rest, and a rest below the shortest frame.
#[test]
fn wire_bytes_of_a_flow() {
    for (bytes, wire) in [(1, 84), (6, 84), (7, 85), (1460, 1538), (1461, 1622), (1_000_000, 1_053_430)] {
        assert_eq!(ethernet().wire_bytes(bytes), wire, "{bytes}");
    }
}

/// The closed form of the mean bytes on the wire against the sum over every size of a small distribution, and against
/// draws from the published ones.
#[test]
fn mean_wire_bytes_are_exact() {
    for format in [PacketFormat::new(10, WireFormat { header_bytes: 3, minimum_bytes: 12 }), ethernet()] {
        let sum: u64 = (1..=5000).map(|bytes| format.wire_bytes(bytes)).sum();
        let mean = format.mean_wire_bytes(&Distribution::uniform(1, 5000).unwrap());
        assert!((mean - sum as f64 / 5000.0).abs() < 1e-6, "{mean}");
    }
    for (name, _) in BUILT_IN {
        let (sizes, n) = (built_in(name), 100_000);
        let at = |i: u32| ethernet().wire_bytes(sizes.quantile((f64::from(i) + 0.5) / f64::from(n))) as f64;
        let mean = (0..n).map(at).sum::<f64>() / f64::from(n);
        assert!((mean / ethernet().mean_wire_bytes(&sizes) - 1.0).abs() < 1e-3, "{name}: {mean}");
    }
}

proptest! {
    #[test]
    fn parsing_never_panics(text in "(size_bytes,cdf\n)?([#,.0-9eN\n-]{0,12}\n?){0,8}") {
        if let Ok(sizes) = Distribution::parse("t", &text) {
            prop_assert!(sizes.mean_bytes() > 1.0 - 1e-9);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}") {
        let _ = Distribution::parse("t", &text);
    }

    /// Quantiles never fall, lie within the table, and their average is the mean.
    #[test]
    fn quantiles_are_monotone(
        mut sizes in prop::collection::vec(0u64..5_000, 1..8),
        mut cdf in prop::collection::vec(0.0f64..1.0, 0..7),
    ) {
        sizes.sort_unstable();
        cdf.truncate(sizes.len() - 1);
        cdf.sort_by(f64::total_cmp);
        cdf.resize(sizes.len(), 1.0);
        let rows = sizes.iter().zip(&cdf).map(|(size, cdf)| format!("{size},{cdf}\n")).collect::<Vec<_>>();
        let table = table(&rows.concat()).unwrap();
        let n = 20_000u32;
        let (mut previous, mut sum) = (1, 0.0);
        for i in 0..n {
            let size = table.quantile((f64::from(i) + 0.5) / f64::from(n));
            prop_assert!(size >= previous && size <= table.max_bytes());
            previous = size;
            sum += size as f64;
        }
        prop_assert!((sum / f64::from(n) - table.mean_bytes()).abs() < 1.0);
    }
}
