//! The names that providers give their errors, and the HTTP statuses these stand for: one table.

/// The names of each status, lower case, without separators and without a closing `error` or `exception`,
/// so that `rate_limit_error`, `RateLimitError` and `RATE_LIMIT` are one.
const STATUSES: &[(u16, &[&str])] = &[
    (
        400,
        &[
            "invalidrequest",
            "badrequest",
            "contextlengthexceeded",
            "exceedcontextsize",
            "invalidargument",
            "failedprecondition",
            "outofrange",
            "invalidprompt",
            "invalidvalue",
            "validation",
            "contentfilter",
            "contentpolicyviolation",
            "stringabovemaxlength",
            "unsupportedparameter",
            "unsupportedvalue",
            "toolusefailed",
        ],
    ),
    (401, &["authentication", "unauthenticated", "unauthorized", "invalidapikey", "incorrectapikey"]),
    (402, &["billing", "paymentrequired", "insufficientbalance"]),
    (403, &["permission", "permissiondenied", "accessdenied", "forbidden"]),
    (404, &["notfound", "modelnotfound", "unknownmodel"]),
    (413, &["requesttoolarge"]),
    (422, &["unprocessableentity"]),
    (
        429,
        &[
            "ratelimited",
            "toomanyrequests",
            "resourceexhausted",
            "insufficientquota",
            "insufficientuserquota",
            "exceededcurrentquota",
            "creditbalanceexhausted",
            "quotaexceeded",
            "throttling",
            "throttled",
            "modelnotready",
        ],
    ),
    (500, &["server", "internalserver", "internal", "api"]),
    (502, &["badgateway", "modelstream", "provider", "providerunavailable", "upstream"]),
    (
        503,
        &[
            "serviceunavailable",
            "unavailable",
            "serverisoverloaded",
            "serveroverloaded",
            "engineoverloaded",
            "insufficientsystemresource",
            "capacityexceeded",
        ],
    ),
    (504, &["timeout", "requesttimeout", "gatewaytimeout", "deadlineexceeded"]),
    (529, &["overloaded"]),
];

/// Out of credit: no wait that a request can afford helps.
const QUOTA: &[&str] = &[
    "insufficientquota",
    "insufficientuserquota",
    "exceededcurrentquota",
    "creditbalanceexhausted",
    "insufficientbalance",
    "billing",
    "billinghardlimitreached",
    "billingnotactive",
    "paymentrequired",
];

/// The status that an error of this name stands for, if it is known.
pub(super) fn status(name: &str) -> Option<u16> {
    let name = plain(name);
    if name.starts_with("ratelimit") {
        return Some(429);
    }
    STATUSES.iter().find(|(_, names)| names.contains(&name.as_str())).map(|(status, _)| *status)
}

pub(super) fn is_quota(name: &str) -> bool {
    QUOTA.contains(&plain(name).as_str())
}

fn plain(name: &str) -> String {
    let mut plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    for suffix in ["error", "exception"] {
        if plain.len() > suffix.len() && plain.ends_with(suffix) {
            plain.truncate(plain.len() - suffix.len());
        }
    }
    plain
}
