//! `stentor rr`: a request and its response.

use std::time::{Duration, Instant};

use clap::Args;
use stentor_client::{Client, ClientError, Message, Property, Publication, QoS, SubscribeOptions};

use crate::connect::{Connect, Plan, hint_at_shell, qos};
use crate::failure::{self, Failure};
use crate::payload::Payload;
use crate::stop::Stop;
use crate::subscribe::Output;

/// Publishes a request and prints the response, which the other side publishes on the topic of -e.
#[derive(Debug, Args)]
pub(crate) struct Rr {
    /// Topic of the request; can also be the path of -L
    #[arg(short, long)]
    topic: Option<String>,
    /// Topic of the response
    #[arg(short = 'e', long, value_name = "TOPIC")]
    response_topic: String,
    #[command(flatten)]
    payload: Payload,
    /// QoS of the request and of the subscription
    #[arg(short, long, default_value = "0", value_parser = qos)]
    qos: QoS,
    /// Set RETAIN: the server keeps the request as the last message of the topic
    #[arg(short, long)]
    retain: bool,
    /// End after this many seconds, with exit code 27
    #[arg(short = 'W', value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Do not take a retained message for the response
    #[arg(short = 'R')]
    no_retained: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

impl Rr {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let quiet = self.connect.quiet;
        self.request().map_err(|failure| failure.silenced(quiet))
    }

    fn request(self) -> Result<(), Failure> {
        let deadline = self
            .timeout
            .map(|secs| Instant::now() + Duration::from_secs(secs));
        let plan = self.connect.plan()?;
        let topic = self.topic.as_ref().or(plan.url_topic.as_ref());
        let topic = topic.ok_or_else(|| Failure::usage("there is no topic: -t TOPIC"))?;
        for name in [topic, &self.response_topic] {
            stentor_topic::validate_name(name)
                .map_err(|error| Failure::usage(format!("{name:?} is not a topic: {error}")))?;
            hint_at_shell(name);
        }
        let printer = self.output.printer()?;
        let payload = self.payload.read()?;
        let payload = payload.ok_or_else(|| Failure::usage("a request is one message: not -l"))?;
        let mut properties = plan.properties.publish.clone();
        properties.push(Property::ResponseTopic(&self.response_topic));

        let stop = Stop::listen()?;
        let mut client = plan.open()?;
        stop.guard(&client)?;
        let request = Publication {
            topic,
            payload: &payload,
            qos: self.qos,
            retain: self.retain,
            properties,
        };
        let result = self
            .exchange(&plan, &mut client, &request, deadline)
            .and_then(|response| printer.print(&response));
        let result = match (result, stop.asked()) {
            (Err(_), Some(signal)) => Err(Failure::interrupted(signal, "the response")),
            (result, _) => result,
        };
        plan.goodbye(client, result)
    }

    /// Asks, and waits for the response.
    fn exchange(
        &self,
        plan: &Plan,
        client: &mut Client,
        request: &Publication<'_>,
        deadline: Option<Instant>,
    ) -> Result<Message, Failure> {
        let failed = |error: ClientError| Failure::client(&error, plan.version());
        let options = SubscribeOptions {
            qos: self.qos,
            ..SubscribeOptions::default()
        };
        let filters = [(self.response_topic.as_str(), options)];
        let answers = client
            .subscribe_with(&filters, &plan.properties.subscribe)
            .map_err(failed)?;
        if let Some(reason) = answers.iter().find(|reason| reason.is_error()) {
            let text = format!("the subscription to {:?} was refused", self.response_topic);
            return Err(Failure::with_code(failure::code(*reason), text));
        }
        client.publish(request).map_err(failed)?;
        let expected = plan.properties.publish.as_properties().correlation_data();
        loop {
            let patience = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let message = client.receive(patience).map_err(failed)?;
            let message = message.ok_or_else(Failure::timeout)?;
            if is_response(&message, expected) && !(self.no_retained && message.retain) {
                return Ok(message);
            }
        }
    }
}

/// A response carries the correlation data of its request. A request without any accepts every
/// response.
fn is_response(message: &Message, expected: Option<&[u8]>) -> bool {
    expected.is_none_or(|data| message.properties.as_properties().correlation_data() == Some(data))
}
