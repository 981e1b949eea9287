use super::*;

choices! {
    /// A mode.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Mode {
        /// One.
        Slow = "slow",
        /// Other.
        VeryFast = "very-fast",
    }
}

settings! {
    /// Below.
    #[derive(Clone, PartialEq, Debug)]
    struct Inner {
        /// Deeper.
        pub depth: u8 = 3 => [range: Range::closed(1, 8).of("samples")],
    }
}

settings! {
    /// One of each kind.
    #[derive(Clone, PartialEq, Debug)]
    struct Outer {
        /// A share
        /// of something.
        pub share: f64 = 0.5 => [range: Range::above_to(0.0, 1.0), source: "RFC 1"],
        /// A time.
        pub pause: Span = Span::from_us(5) => [range: Range::above(Span::ZERO)],
        /// A size, if there is one.
        pub room: Option<Bytes> = None => [range: Range::from(Bytes(64)), default: "no limit", limits: "up to the room"],
        /// A mode.
        pub mode: Mode = Mode::Slow => [],
        /// Sizes.
        pub steps: [u64; 2] = [1, 2] => [],
    }
    nested {
        /// What is below.
        pub inner: Inner
    }
    fixed {
        /// Not for users.
        pub hidden: u32 = 7
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

#[test]
fn values_are_read_by_key_also_in_nested_settings() {
    let mut outer = Outer::default();
    for (key, value) in [
        ("share", Value::Integer(1)),
        ("pause", text("2ms")),
        ("room", text("4kB")),
        ("mode", text("very-fast")),
        ("steps", Value::List([3, 4].map(Value::Integer).into())),
        ("depth", Value::Integer(8)),
    ] {
        assert_eq!(outer.set(key, &value), Some(Ok(())), "{key}");
        let written = outer.get(key).unwrap().unwrap();
        assert_eq!(Outer::default().set(key, &written), Some(Ok(())), "what is written can be read: {key}");
    }
    let expected = Outer {
        share: 1.0,
        pause: Span::from_ms(2),
        room: Some(Bytes(4000)),
        mode: Mode::VeryFast,
        steps: [3, 4],
        inner: Inner { depth: 8 },
        hidden: 7,
    };
    assert_eq!(outer, expected);
    assert_eq!(outer.set("hidden", &Value::Integer(1)), None);
    assert_eq!(Outer::default().get("room"), Some(None));
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let mut outer = Outer::default();
    let mut why = |key: &str, value: Value| match outer.set(key, &value) {
        Some(Err(ReadError::Wrong(why))) => why,
        other => panic!("{key}: {other:?}"),
    };
    assert_eq!(why("share", text("much")), "text \"much\" where a number should be");
    assert_eq!(
        why("pause", Value::Integer(5)),
        "integer `5` where a quantity with its unit in quotes, such as \"10Gbit/s\", \"5us\" or \"250MB\", should be"
    );
    assert_eq!(why("depth", Value::Integer(-1)), "integer `-1` where a whole number from 0 to 255 should be");
    assert_eq!(why("steps", Value::List([].into())), "must be a list of 2 whole numbers");
    let unknown = ReadError::Unknown { given: "fast".into(), known: ["slow", "very-fast"].into() };
    assert_eq!(outer.set("mode", &text("fast")), Some(Err(unknown)));
}

#[test]
fn ranges_hold_their_ends_as_they_say() {
    let refused = |change: fn(&mut Outer)| {
        let mut outer = Outer::default();
        change(&mut outer);
        outer.check().map_err(|out| (out.key, out.why)).err()
    };
    let why = |key, why: &str| Some((key, why.to_owned()));
    assert_eq!(refused(|_| ()), None);
    assert_eq!(refused(|outer| outer.share = 0.0), why("share", "must lie in (0, 1]"));
    assert_eq!(refused(|outer| outer.share = 1.0), None);
    assert_eq!(refused(|outer| outer.share = f64::NAN), why("share", "must lie in (0, 1]"));
    assert_eq!(refused(|outer| outer.pause = Span::ZERO), why("pause", "must be longer than 0s"));
    assert_eq!(refused(|outer| outer.room = Some(Bytes(63))), why("room", "must be at least 64B"));
    assert_eq!(refused(|outer| outer.inner.depth = 9), why("depth", "must be 1 to 8 samples"));
    assert_eq!(Range::closed(Span::from_ns(1), Span::from_secs(1)).refusal(), "must be between 1ns and 1s");
    assert_eq!(Range::from_below(0.0, 1.0).refusal(), "must lie in [0, 1)");
}

#[test]
fn a_declaration_describes_itself() {
    let all = Outer::describe();
    let keys: Vec<&str> = all.iter().map(|setting| setting.key).collect();
    assert_eq!(keys, ["share", "pause", "room", "mode", "steps", "depth"]);
    let of = |key: &str| all.iter().find(|setting| setting.key == key).unwrap();
    let share = of("share");
    assert_eq!((share.meaning.as_str(), share.kind.as_str()), ("A share of something.", "number"));
    assert_eq!((share.default.as_str(), share.range.as_str(), share.source), ("0.5", "(0, 1]", "RFC 1"));
    assert_eq!((of("room").default.as_str(), of("room").range.as_str()), ("no limit", "from 64B, up to the room"));
    assert_eq!(of("mode").kind, "`\"slow\"`, `\"very-fast\"`");
    assert_eq!((of("depth").range.as_str(), of("pause").default.as_str()), ("1 to 8 samples", "\"5us\""));
}
