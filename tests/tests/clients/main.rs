//! Other people's clients, unmodified, against the built server.

mod bridge;
mod mosquitto;
mod mqttjs;
mod paho;
