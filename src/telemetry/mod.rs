//! What the operator sees: logs. Metrics and usage events are not there yet.

mod exchange_log;
mod setup;

pub use exchange_log::ExchangeLog;
pub use setup::init;
