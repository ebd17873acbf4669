//! Other people's clients, unmodified, against the built server.

mod bridge;
mod browser;
mod expiry;
mod mosquitto;
mod mqttjs;
mod paho;
