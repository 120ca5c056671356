//! The proxies' config files, with what is known only at run time put in.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use super::Proxy;

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
    pub upstream: SocketAddr,
    pub directory: &'a Path,
    pub model: &'a str,
}

impl Places<'_> {
    /// Writes the filled-in file and says where it is.
    ///
    /// # Errors
    /// The directory cannot be written to.
    pub fn write(&self, template: Template) -> io::Result<String> {
        let path = self.directory.join(template.name);
        fs::write(&path, self.fill(template.text))?;
        Ok(path.display().to_string())
    }

    fn fill(&self, text: &str) -> String {
        let places = [
            ("{{listen}}", self.listen.to_string()),
            ("{{listen_ip}}", self.listen.ip().to_string()),
            ("{{listen_port}}", self.listen.port().to_string()),
            ("{{upstream}}", self.upstream.to_string()),
            ("{{upstream_ip}}", self.upstream.ip().to_string()),
            ("{{upstream_port}}", self.upstream.port().to_string()),
            ("{{dir}}", self.directory.display().to_string()),
            ("{{model}}", self.model.to_owned()),
        ];
        places.iter().fold(text.to_owned(), |text, (place, value)| text.replace(place, value))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use baton::config::{Config, Sources};

    use super::*;

    fn places() -> Places<'static> {
        Places {
            listen: (Ipv4Addr::LOCALHOST, 7001).into(),
            upstream: (Ipv4Addr::LOCALHOST, 7002).into(),
            directory: Path::new("/nowhere"),
            model: "healthy",
        }
    }

    #[test]
    fn every_template_is_filled_in_to_the_last_place() {
        for proxy in Proxy::ALL {
            let Some(template) = of(proxy) else { continue };
            let text = places().fill(template.text);
            assert!(!text.contains("{{") && !text.contains("}}"), "{}: {text}", template.name);
            assert!(text.contains("7001") && text.contains("7002"), "{}: {text}", template.name);
        }
    }
}
