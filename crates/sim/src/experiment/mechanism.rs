//! The mechanism that a paper gives for a claim: `ours` without it.

use super::Experiment;
use super::axes::Scalar;
use super::spec::MechanismSpec;
use crate::scenario::ScenarioError;
use crate::suggest;

impl MechanismSpec {
    /// Whether `ours` is computed again without it.
    pub(super) fn is_switched(&self) -> bool {
        self.none.is_none()
    }

    /// How it is switched off.
    pub(super) fn off_in_words(&self) -> String {
        let scalars = self.off.iter().filter_map(|(axis, value)| Some((axis, Scalar::of_value(value)?)));
        let axes = scalars.map(|(axis, value)| format!("{axis} = {value}"));
        let runs = self.instead.iter().map(|(of, run)| format!("{run} instead of {of}"));
        axes.chain(runs).collect::<Vec<_>>().join(", ")
    }
}

impl Experiment {
    /// An error if a mechanism is neither switched off nor said to be missing, or both.
    pub(super) fn check_mechanism(&self, at: &str, mechanism: &MechanismSpec) -> Result<(), ScenarioError> {
        let at = format!("{at}.mechanism");
        let switches = !mechanism.off.is_empty() || !mechanism.instead.is_empty();
        let why = match (mechanism.none, switches) {
            (Some(_), _) if switches || !mechanism.name.is_empty() => "`none` stands alone",
            (None, false) => "needs `off`, values of axes, or `instead`, runs, or `none`",
            (None, true) if mechanism.name.is_empty() => "needs a `name`",
            _ => return Ok(()),
        };
        Err(self.document.error(&at, why))
    }

    /// The values of axes at which a mechanism is off.
    pub(super) fn without(&self, at: &str, mechanism: &MechanismSpec) -> Result<Vec<(String, Scalar)>, ScenarioError> {
        let mut bound = Vec::new();
        for (name, value) in &mechanism.off {
            let at = format!("{at}.mechanism.off.{name}");
            let names: Vec<String> = self.plan.axes.iter().map(|axis| axis.name.clone()).collect();
            let Some(axis) = self.plan.axes.iter().find(|axis| axis.name == *name) else {
                return Err(self.document.error(&at, suggest::unknown("axis", name, &names)));
            };
            let value =
                Scalar::of_value(value).ok_or_else(|| self.document.error(&at, "must be a number or a text"))?;
            axis.position(&value).map_err(|why| self.document.error(&at, why))?;
            bound.push((name.clone(), value));
        }
        Ok(bound)
    }

    /// The expression `ours` with other runs in the place of those that have the mechanism.
    pub(super) fn with_other_runs(
        &self,
        at: &str,
        ours: &str,
        mechanism: &MechanismSpec,
    ) -> Result<String, ScenarioError> {
        let at = format!("{at}.mechanism.instead");
        let call = |run: &str| format!("run({run:?}");
        // One pass over the text, so that two runs may change places.
        let mut text = String::new();
        let mut rest = ours;
        while let Some(start) = rest.find("run(\"") {
            let (before, from) = rest.split_at(start);
            text.push_str(before);
            let replaced = mechanism.instead.iter().find(|(of, _)| from.starts_with(&call(of)));
            let length = replaced.map_or("run(\"".len(), |(of, _)| call(of).len());
            text.push_str(&replaced.map_or_else(|| from[..length].to_owned(), |(_, run)| call(run)));
            rest = &from[length..];
        }
        text.push_str(rest);
        if let Some(of) = mechanism.instead.keys().find(|of| !ours.contains(&call(of))) {
            return Err(self.document.error(&at, format!("`ours` has no run {of:?}")));
        }
        if compared_with_itself(&text) > compared_with_itself(ours) {
            let why = "`ours` then compares a run with itself, whatever the run gives: use another run, or `none`";
            return Err(self.document.error(&at, why));
        }
        Ok(text)
    }
}

/// How many differences, quotients and comparisons of an expression have the same text on both sides.
fn compared_with_itself(text: &str) -> usize {
    let tokens = inlined(&tokens(text));
    let mut depth = Vec::with_capacity(tokens.len());
    let mut open = 0usize;
    for token in &tokens {
        if CLOSING.contains(&token.as_str()) {
            open = open.saturating_sub(1);
        }
        depth.push(open);
        if OPENING.contains(&token.as_str()) {
            open += 1;
        }
    }
    let is_same = |at: usize| {
        let ends: &[&str] = match tokens[at].as_str() {
            "/" => &["<", ">", "=", "!", "+", "-", "*", "/", "&", "|", ",", ";"],
            "-" => &["<", ">", "=", "!", "+", "-", "&", "|", ",", ";"],
            "<" | ">" | "==" => &["<", ">", "=", "!", "&", "|", ",", ";"],
            _ => return false,
        };
        let is_within = |other: usize| {
            depth[other] > depth[at] || depth[other] == depth[at] && !ends.contains(&&tokens[other][..1])
        };
        let is_operand = |other: &usize| is_within(*other) && !(depth[*other] == depth[at] && tokens[*other] == "}");
        let left = (0..at).rev().take_while(is_operand).last().unwrap_or(at);
        let after = at + 1;
        let right = (after..tokens.len()).take_while(is_operand).last().map_or(after, |last| last + 1);
        left < at && tokens[left..at] == tokens[after..right]
    };
    (0..tokens.len()).filter(|&at| is_same(at)).count()
}

const OPENING: [&str; 4] = ["(", "[", "{", "#{"];
const CLOSING: [&str; 3] = [")", "]", "}"];

/// Words, texts in quotes, and signs, of which only `==` and `#{` are of two characters: `<=` compares what `<` does.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(first) = rest.next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let mut token = first.to_string();
        if "\"'`".contains(first) {
            token.extend(rest.by_ref().take_while(|&c| c != first));
        } else if is_word(first) {
            while let Some(next) = rest.next_if(|&c| is_word(c)) {
                token.push(next);
            }
        } else if rest.next_if(|&c| (first, c) == ('=', '=')).is_some() {
            token.push('=');
        } else if rest.next_if(|&c| (first, c) == ('#', '{')).is_some() {
            token.push('{');
        } else if "<>".contains(first) {
            rest.next_if_eq(&'=');
        }
        if !token.trim().is_empty() {
            tokens.push(token);
        }
    }
    tokens
}

/// Each name that a `let` outside brackets gives has its value in its place.
fn inlined(tokens: &[String]) -> Vec<String> {
    let mut names: Vec<(&str, Vec<String>)> = Vec::new();
    let put = |tokens: &[String], names: &[(&str, Vec<String>)]| -> Vec<String> {
        let mut text = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            let (word, rest) = token.split_once('.').map_or((token.as_str(), None), |(word, rest)| (word, Some(rest)));
            let is_key = tokens.get(at + 1).is_some_and(|next| next == ":");
            match names.iter().rev().find(|(name, _)| *name == word && !is_key) {
                Some((_, value)) => {
                    text.extend(value.iter().cloned());
                    text.extend(rest.map(|rest| format!(".{rest}")));
                }
                None => text.push(token.clone()),
            }
        }
        text
    };
    let mut rest = tokens;
    while let [keyword, name, sign, value @ ..] = rest {
        let mut open = 0i32;
        let end = value.iter().position(|token| {
            open += i32::from(OPENING.contains(&token.as_str())) - i32::from(CLOSING.contains(&token.as_str()));
            open == 0 && token == ";"
        });
        let (true, Some(end)) = (keyword == "let" && sign == "=", end) else { break };
        let value_of = put(&value[..end], &names);
        names.push((name, value_of));
        rest = &value[end + 1..];
    }
    put(rest, &names)
}

#[cfg(test)]
mod tests {
    use super::compared_with_itself;

    /// What has the same text on both sides is found wherever it stands, also behind names; what is merely alike is not.
    #[test]
    fn a_run_compared_with_itself_is_found() {
        for (text, times) in [
            ("f(run(\"a\")) < f(run(\"a\"))", 1),
            ("f(run(\"a\")).p(\"x\")<=f( run(\"a\") ).p(\"x\")", 1),
            ("f(run(\"a\")) < f(run(\"b\"))", 0),
            ("f(run(\"a\"), \"x\") < f(run(\"a\"), \"y\")", 0),
            ("[1, 2].map(|v| f(run(\"a\", #{ n: v })) / f(run(\"a\", #{ n: v })))", 1),
            ("[f(a) / f(a), f(a) - f(a), f(a) == f(a)]", 3),
            ("let x = f(run(\"a\")); let y = f(run(\"a\")); x.m(\"p50\") / y.m(\"p50\")", 1),
            ("let x = f(run(\"a\")); let y = f(run(\"a\")); x.m(\"p50\") / y.m(\"p99\")", 0),
            ("let x = f(a); g(#{ x: 1 }) < g(#{ x: 1 }) && x > 0", 1),
            ("2 * f(a) < f(a)", 0),
            ("f(a) / f(a) > 2", 1),
            ("f(a) + g(b) - g(b)", 1),
            ("f(a) - g(b) + g(b)", 0),
            ("f(a) * g(b) / g(b)", 1),
        ] {
            assert_eq!(compared_with_itself(text), times, "{text}");
        }
    }
}
