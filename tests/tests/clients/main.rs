//! Other people's clients, unmodified, against the built server.

mod bridge;
mod browser;
mod mosquitto;
mod mqttjs;
mod paho;
