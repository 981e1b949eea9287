//! Requests to S3: where a bucket is, and AWS Signature Version 4 by headers.
//!
//! The crates that sign bring a URL parser with Unicode's tables, or a client of their own: three dozen packages for one
//! HMAC after another. It is held against the example that AWS publishes.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use ring::{digest, hmac};

use crate::url::encoded;

/// Of no content (SHA-256).
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const DEFAULT_REGION: &str = "us-east-1";

/// Who asks S3, and where that is, as the variables say that AWS's own programs read.
#[derive(Clone, Default)]
pub struct S3Access {
    /// `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`: of a server that is not AWS's.
    pub endpoint: Option<String>,
    /// `AWS_REGION` or `AWS_DEFAULT_REGION`.
    pub region: Option<String>,
    /// `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`; without them requests are anonymous.
    pub keys: Option<(String, String)>,
    /// `AWS_SESSION_TOKEN`, of keys that hold for a while.
    pub session_token: Option<String>,
}

impl std::fmt::Debug for S3Access {
    /// Without the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = self.keys.as_ref().map(|(key, _)| key);
        f.debug_struct("S3Access").field("endpoint", &self.endpoint).field("key", &key).finish_non_exhaustive()
    }
}

impl S3Access {
    /// As this process's environment says.
    pub fn from_environment() -> Self {
        let set =
            |names: &[&str]| names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        let keys = set(&["AWS_ACCESS_KEY_ID"]).zip(set(&["AWS_SECRET_ACCESS_KEY"]));
        Self {
            endpoint: set(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]),
            region: set(&["AWS_REGION", "AWS_DEFAULT_REGION"]),
            keys,
            session_token: set(&["AWS_SESSION_TOKEN"]),
        }
    }

    fn region(&self) -> &str {
        self.region.as_deref().unwrap_or(DEFAULT_REGION)
    }

    /// URL of an object. Of a bucket with a dot no certificate is for a host of its own.
    pub(crate) fn url(&self, bucket: &str, key: &str) -> String {
        let key = encoded(key);
        match &self.endpoint {
            Some(endpoint) => format!("{}/{bucket}/{key}", endpoint.trim_end_matches('/')),
            None if bucket.contains('.') => format!("https://s3.{}.amazonaws.com/{bucket}/{key}", self.region()),
            None => format!("https://{bucket}.s3.{}.amazonaws.com/{key}", self.region()),
        }
    }

    /// The headers that sign a `GET` of a URL's host and path, with the `range` that is asked for.
    pub(crate) fn sign(&self, host: &str, path: &str, range: &str, now: DateTime<Utc>) -> Vec<(&'static str, String)> {
        let Some((key, secret)) = &self.keys else { return Vec::new() };
        let (time, day) = (now.format("%Y%m%dT%H%M%SZ").to_string(), now.format("%Y%m%d").to_string());
        // In the order of their names.
        let mut signed = vec![
            ("host", host.to_owned()),
            ("range", range.to_owned()),
            ("x-amz-content-sha256", EMPTY.to_owned()),
            ("x-amz-date", time.clone()),
        ];
        signed.extend(self.session_token.clone().map(|token| ("x-amz-security-token", token)));
        let names = signed.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let mut canonical = format!("GET\n{path}\n\n");
        for (name, value) in &signed {
            let _ = writeln!(canonical, "{name}:{value}");
        }
        let _ = write!(canonical, "\n{names}\n{EMPTY}");
        let scope = format!("{day}/{}/s3/aws4_request", self.region());
        let hashed = hexadecimal(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
        let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashed}");
        let mut signature = format!("AWS4{secret}").into_bytes();
        for part in [&day, self.region(), "s3", "aws4_request", &to_sign] {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &signature);
            signature = hmac::sign(&key, part.as_bytes()).as_ref().to_vec();
        }
        let signature = hexadecimal(&signature);
        let authorization =
            format!("AWS4-HMAC-SHA256 Credential={key}/{scope},SignedHeaders={names},Signature={signature}");
        signed.retain(|(name, _)| name.starts_with("x-amz-"));
        signed.push(("authorization", authorization));
        signed
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> S3Access {
        let keys = ("AKIAIOSFODNN7EXAMPLE".to_owned(), "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned());
        S3Access { keys: Some(keys), ..S3Access::default() }
    }

    /// "Example: GET Object" of Amazon S3's API reference, *Signature Calculations for the Authorization Header*.
    #[test]
    fn the_published_example_is_signed_alike() {
        let now = "2013-05-24T00:00:00Z".parse().unwrap();
        let signed = example().sign("examplebucket.s3.amazonaws.com", "/test.txt", "bytes=0-9", now);
        let expected = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        assert_eq!(signed.last().unwrap(), &("authorization", expected.to_owned()));
        assert_eq!(signed[1], ("x-amz-date", "20130524T000000Z".to_owned()));
    }

    /// Nobody who has no keys signs; a session's token is signed and sent; no secret is printed.
    #[test]
    fn keys_are_used_and_not_shown() {
        let now = "2013-05-24T00:00:00Z".parse().unwrap();
        assert!(S3Access::default().sign("host", "/x", "bytes=0-0", now).is_empty());
        let access = S3Access { session_token: Some("token".to_owned()), ..example() };
        let signed = access.sign("host", "/x", "bytes=0-0", now);
        assert!(signed.contains(&("x-amz-security-token", "token".to_owned())));
        assert!(signed.last().unwrap().1.contains("x-amz-date;x-amz-security-token,"));
        assert!(!format!("{access:?}").contains("wJalr") && !format!("{access:?}").contains("token"));
    }

    #[test]
    fn buckets_are_where_aws_says() {
        let at = |endpoint: Option<&str>, bucket| {
            let access = S3Access { endpoint: endpoint.map(str::to_owned), ..S3Access::default() };
            access.url(bucket, "a b/c+d")
        };
        assert_eq!(at(None, "bucket"), "https://bucket.s3.us-east-1.amazonaws.com/a%20b/c%2Bd");
        assert_eq!(at(None, "my.bucket"), "https://s3.us-east-1.amazonaws.com/my.bucket/a%20b/c%2Bd");
        assert_eq!(at(Some("http://127.0.0.1:9000/"), "bucket"), "http://127.0.0.1:9000/bucket/a%20b/c%2Bd");
    }
}
