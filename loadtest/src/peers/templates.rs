//! The proxies' config files, with what is known only at run time put in.

use std::fs;
use std::io;
use std::net::SocketAddr;

use super::{Proxy, Setting};

/// A file of `loadtest/peers`, compiled in.
#[derive(Clone, Copy)]
pub struct Template {
    name: &'static str,
    text: &'static str,
}

/// The config of `proxy`; None: it has none.
pub const fn of(proxy: Proxy) -> Option<Template> {
    let (name, text) = match proxy {
        Proxy::Direct | Proxy::Relay => return None,
        Proxy::Nginx => ("nginx.conf", include_str!("../../peers/nginx.conf")),
        Proxy::Haproxy => ("haproxy.cfg", include_str!("../../peers/haproxy.cfg")),
        Proxy::Envoy => ("envoy.yaml", include_str!("../../peers/envoy.yaml")),
        Proxy::Baton => ("baton.toml", include_str!("../../peers/baton.toml")),
    };
    Some(Template { name, text })
}

/// What a template leaves open.
#[derive(Clone, Copy)]
pub struct Places<'a> {
    pub listen: SocketAddr,
    pub setting: &'a Setting<'a>,
}

impl Places<'_> {
    /// Writes the filled-in file and says where it is.
    ///
    /// # Errors
    /// The directory cannot be written to.
    pub fn write(&self, template: Template) -> io::Result<String> {
        let path = self.setting.directory.join(template.name);
        fs::write(&path, self.fill(template.text))?;
        Ok(path.display().to_string())
    }

    fn fill(&self, text: &str) -> String {
        let places = [
            ("{{listen}}", self.listen.to_string()),
            ("{{listen_ip}}", self.listen.ip().to_string()),
            ("{{listen_port}}", self.listen.port().to_string()),
            ("{{upstream}}", self.setting.upstream.to_string()),
            ("{{upstream_ip}}", self.setting.upstream.ip().to_string()),
            ("{{upstream_port}}", self.setting.upstream.port().to_string()),
            ("{{dir}}", self.setting.directory.display().to_string()),
            ("{{model}}", self.setting.model.to_owned()),
            ("{{tls}}", self.setting.tls.to_owned()),
        ];
        places.iter().fold(text.to_owned(), |text, (place, value)| text.replace(place, value))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::path::Path;

    use baton::config::{self, Sources};

    use super::*;

    fn fill(template: Template, tls: &str) -> String {
        let setting = Setting {
            upstream: (Ipv4Addr::LOCALHOST, 7002).into(),
            core: 0,
            directory: Path::new("/nowhere"),
            model: "healthy,events=2,gap=20ms",
            tls,
        };
        Places { listen: (Ipv4Addr::LOCALHOST, 7001).into(), setting: &setting }.fill(template.text)
    }

    #[test]
    fn every_template_is_filled_in_to_the_last_place() {
        for proxy in Proxy::ALL {
            let Some(template) = of(proxy) else { continue };
            let text = fill(template, "");
            assert!(!text.contains("{{") && !text.contains("}}"), "{}: {text}", template.name);
            assert!(text.contains("7001") && text.contains("7002"), "{}: {text}", template.name);
        }
    }

    #[test]
    fn batons_config_is_one_that_it_takes_and_has_failover_armed() {
        let sources = Sources { env: &|_| None, read_file: &|_| Err(io::ErrorKind::NotFound.into()) };
        for tls in ["", "tls = { cert_file = \"/c.pem\", key_file = \"/k.pem\" }"] {
            let text = fill(of(Proxy::Baton).unwrap(), tls);
            let config = config::parse(&text, &sources).unwrap();
            assert_eq!((config.server.workers, config.server.tls.is_some()), (1, !tls.is_empty()));
            assert_eq!(
                (config.routes[0].name.as_ref(), config.routes[0].targets.len()),
                ("healthy,events=2,gap=20ms", 2)
            );
        }
    }
}
