//! Mistakes in the file as a whole, in `[server]`, `[log]` and `[keys]`.

use super::{Case, check, load, shown};

const THE_SHAPE_OF_THE_FILE: &[Case] = &[
    ("serve = 1", 1, "serve", &["unknown key; did you mean \"server\"?"]),
    ("\n[admin]\nlisten = 'x'", 3, "admin.listen", &["\"x\" is no address; write an IP address and a port"]),
    ("[admin]\nlisten = ['127.0.0.1:1']", 2, "admin.listen", &["an array; expected a string"]),
    ("[admin]\nport = 1", 2, "admin.port", &["unknown key; expected one of: listen"]),
    ("[server]\nopenn = true", 2, "server.openn", &["did you mean \"open\"?"]),
    ("[server]\nio = 'auto'\nheader-timeout = '1s'", 3, "server.header-timeout", &["\"header_timeout\"?"]),
    ("[server]\n\"a\\nb\" = 1", 2, "server.\"a\\nb\"", &["unknown key; expected one of: listen, tls, open"]),
    ("[server]\nx.y = 1", 2, "server.x", &["unknown key"]),
    ("[log]\naccess = ''", 2, "log.access", &["\"\" is no path; name a file"]),
    ("[log]\nusage = true", 2, "log.usage", &["true is a boolean; expected a string"]),
    ("server = 1", 1, "server", &["1 is an integer; expected a table"]),
    ("limits = []", 1, "limits", &["an array; expected a table"]),
    ("[[log]]", 1, "log", &["an array; expected a table"]),
    ("keys.k = 'x'", 1, "keys.k", &["\"x\" is a string; expected a table"]),
];

#[test]
fn of_the_shape_of_the_file() {
    check(THE_SHAPE_OF_THE_FILE);
}

const VALUES_OF_ANOTHER_TYPE: &[Case] = &[
    ("[server]\nopen = 'yes'", 2, "server.open", &["\"yes\" is a string; expected true or false"]),
    ("[server]\nworkers = '4'", 2, "server.workers", &["\"4\" is a string; expected a whole number from 0"]),
    ("[server]\nworkers = 1.5", 2, "server.workers", &["1.5 is a float; expected a whole number"]),
    (
        "[server]\ndrain = 30",
        2,
        "server.drain",
        &["30 is an integer; expected a duration in quotes", "\"30s\""],
    ),
    ("[server]\nio = true", 2, "server.io", &["true is a boolean; expected a string"]),
    ("[server]\nlisten = 8080", 2, "server.listen", &["8080 is an integer; expected an address like"]),
    ("[server]\nlisten = [8080]", 2, "server.listen[0]", &["8080 is an integer; expected a string"]),
    ("[limits]\nhead = 1979-05-27", 2, "limits.head", &["1979-05-27 is a date; expected a number of bytes"]),
    ("[limits]\nhead = {}", 2, "limits.head", &["a table; expected a number of bytes"]),
    ("[limits]\nhead = 99999999999999999999", 2, "limits.head", &["99999999999999999999 is out of range"]),
];

#[test]
fn of_values_of_another_type() {
    check(VALUES_OF_ANOTHER_TYPE);
}

const VARIABLES: &[Case] = &[
    ("[log]\nlevel = '${LEVEL}'", 2, "log.level", &["environment variable LEVEL is not set; set it"]),
    ("[log]\nlevel = '$LEVEL'", 2, "log.level", &["begins no ${NAME}", "write $$"]),
    ("[log]\nlevel = '${KEY'", 2, "log.level", &["begins no ${NAME}"]),
    ("[log]\nlevel = '${}'", 2, "log.level", &["begins no ${NAME}"]),
    ("[log]\nlevel = '${1A}'", 2, "log.level", &["begins no ${NAME}"]),
    ("[log]\nlevel = '${K-Y}'", 2, "log.level", &["begins no ${NAME}"]),
    ("[log]\nlevel = 'x$'", 2, "log.level", &["begins no ${NAME}"]),
    // As written, not as put in.
    ("[log]\nlevel = '${KEY}'", 2, "log.level", &["\"${KEY}\" is none of: off, error, warn"]),
];

#[test]
fn of_variables() {
    check(VARIABLES);
}

const THE_SERVER: &[Case] = &[
    ("[server]\nlisten = ''", 2, "server.listen", &["\"\" is no address; write an IP address and a port"]),
    ("[server]\nlisten = 'localhost:80'", 2, "server.listen", &["\"localhost:80\" is no address"]),
    ("[server]\nlisten = '127.0.0.1'", 2, "server.listen", &["is no address"]),
    ("[server]\nlisten = '127.0.0.1:65536'", 2, "server.listen", &["is no address"]),
    ("[server]\nlisten = []", 2, "server.listen", &["an empty list; name at least one"]),
    (
        "[server]\nlisten = [\n  '127.0.0.1:1',\n  '127.0.0.1:1',\n]",
        4,
        "server.listen[1]",
        &["\"127.0.0.1:1\" is there twice; take one out"],
    ),
    (
        "[server]\nlisten = '0.0.0.0:80'",
        2,
        "server.listen",
        &["0.0.0.0:80 is not loopback", "add [keys.NAME], or set open = true"],
    ),
    ("[server]\nlisten = ['127.0.0.1:1', '[::]:1']", 2, "server.listen", &["[::]:1 is not loopback"]),
    (
        "[server]\nio = 'uring'",
        2,
        "server.io",
        &["is none of: auto, io_uring, epoll; did you mean \"io_uring\"?"],
    ),
    (
        "[server]\nclient_half_close = 'x'",
        2,
        "server.client_half_close",
        &["\"x\" is none of: cancel, serve"],
    ),
    ("[server]\ntls = { cert_file = 'c' }", 2, "server.tls.key_file", &["missing; name the PEM file"]),
    ("[server.tls]\nkey_file = 'k'", 1, "server.tls.cert_file", &["missing; name the PEM file"]),
    ("[server]\ntls = { cert_file = '', key_file = 'k' }", 2, "server.tls.cert_file", &["\"\" is no path"]),
    (
        "[server]\ntls = { cert_file = 'c', key_file = \"k\\u0000\" }",
        2,
        "server.tls.key_file",
        &["is no path"],
    ),
    ("[server]\ntls = 'c'", 2, "server.tls", &["\"c\" is a string; expected a table"]),
    ("[log]\nlevel = 'warning'", 2, "log.level", &["\"warning\" is none of", "did you mean \"warn\"?"]),
    ("[log]\nformat = 'xml'", 2, "log.format", &["\"xml\" is none of: text, json"]),
];

#[test]
fn of_the_server() {
    check(THE_SERVER);
}

const CLIENT_KEYS: &[Case] = &[
    ("[keys.k]", 1, "keys.k.sha256", &["missing; list the SHA-256 of each token"]),
    ("[keys.k]\nsha256 = []", 2, "keys.k.sha256", &["an empty list, so nobody could use this key"]),
    ("[keys.k]\nsha256 = 'sk-x'", 2, "keys.k.sha256", &["a string; expected a list of SHA-256 digests"]),
    ("[keys.k]\nsha256 = ['sk-x']", 2, "keys.k.sha256[0]", &["4 characters that are no SHA-256"]),
    (
        "[keys.k]\nsha256 = ['0000000000000000000000000000000000000000000000000000000000000000',\n\
             'g000000000000000000000000000000000000000000000000000000000000000']",
        3,
        "keys.k.sha256[1]",
        &["64 characters that are no SHA-256; write its 64 hexadecimal digits"],
    ),
    (
        "[keys.j]\nsha256 = ['0000000000000000000000000000000000000000000000000000000000000000']\n\
             [keys.k]\nsha256 = ['0000000000000000000000000000000000000000000000000000000000000000']",
        4,
        "keys.k.sha256[0]",
        &["a digest that keys.j has already; take one out"],
    ),
    (
        "[keys.k]\nsha256 = ['0000000000000000000000000000000000000000000000000000000000000000']\n\
             routes = ['m', 'x-*']",
        3,
        "keys.k.routes[1]",
        &["\"x-*\" matches no route; expected one of: m"],
    ),
    (
        "[keys.k]\nsha256 = ['0000000000000000000000000000000000000000000000000000000000000000']\nroutes = []",
        3,
        "keys.k.routes",
        &["an empty list, so this key would open nothing"],
    ),
    (
        "[keys.\"k\\u001b\"]\nsha256 = ['0000000000000000000000000000000000000000000000000000000000000000']",
        1,
        "keys.\"k\\u{1b}\"",
        &["an unusable name; write 1 to 256 printable characters"],
    ),
];

#[test]
fn of_client_keys() {
    check(CLIENT_KEYS);
}

#[test]
fn of_toml() {
    let cases = [
        ("[server]\nlisten = \n", 2, "column 10: not TOML: "),
        ("a = 1\na = 2\n", 2, "column 1: not TOML: duplicate key"),
        ("x = 1\r\n'é' = = 1", 2, "column 7: not TOML: "),
        ("[server\n", 1, "column 8: not TOML: "),
        ("api_key = sk-secret", 1, "column 11: not TOML: "),
        ("api_key = \"sk-secret", 1, "not TOML: "),
    ];
    for (text, line, start) in cases {
        let errors = load(text).unwrap_err();
        assert_eq!(errors.len(), 1, "{text:?}: {}", shown(&errors));
        assert_eq!((errors[0].line, errors[0].key.as_str()), (Some(line), ""), "{text:?}: {}", errors[0]);
        assert!(errors[0].message.contains(start), "{text:?}: {}", errors[0]);
        assert!(!errors[0].message.contains("sk-"), "{text:?}: {}", errors[0]);
    }
}

#[test]
fn of_what_is_not_there() {
    let errors = load("").unwrap_err();
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "routes: there is none; add [routes.MODEL] with its targets",
            "upstreams: there is none; add [upstreams.NAME] with a base_url",
        ]
    );
    assert_eq!(errors[0].line, None);
}

#[test]
fn all_of_them_at_once_by_line() {
    let text = "\
[server]
listen = \"0.0.0.0\"
workers = 5000
[upstreams.a]
base_url = \"ftp://h\"
api_key = \"${NOT_SET}\"
[routes.chat]
targets = [{ upstream = \"b\", model = \"x\" }]
timeouts = { idel = \"3s\" }
";
    let errors = load(text).unwrap_err();
    let found: Vec<(Option<usize>, &str)> =
        errors.iter().map(|error| (error.line, error.key.as_str())).collect();
    let want = [
        (Some(2), "server.listen"),
        (Some(3), "server.workers"),
        (Some(5), "upstreams.a.base_url"),
        (Some(6), "upstreams.a.api_key"),
        (Some(8), "routes.chat.targets[0].upstream"),
        (Some(9), "routes.chat.timeouts.idel"),
    ];
    assert_eq!(found, want, "{}", shown(&errors));
    assert!(
        errors[5]
            .to_string()
            .starts_with("line 9: routes.chat.timeouts.idel: unknown key; did you mean \"idle\"?")
    );
}
