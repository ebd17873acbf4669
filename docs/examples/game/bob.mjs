// Waits in the lobby, says "drop" to whoever writes to him in private, and leaves after alice.
import fs from "node:fs";
import mqtt from "mqtt";

const password = fs.readFileSync("password", "utf8").trim();
const login = { protocolVersion: 5, username: "game/bob", password };
const client = mqtt.connect("mqtt://localhost:1883", login);
const to = (topic, text) => client.publish(topic, text, { qos: 1 });
client.on("error", (error) => { console.error(error.message); client.end(); });
client.on("connect", () => client.subscribe(["$private/from/+", "$room/lobby/#"], { qos: 1 }));
client.on("message", (topic, payload) => {
  console.log(topic, payload.toString());
  if (topic.startsWith("$private/from/")) to("$room/lobby/say", "drop");
  if (topic === "$room/lobby/say/alice") to("$private/to/alice", "a game?");
  if (topic !== "$room/lobby/event") return;
  if (payload.includes('"back"')) to("$private/to/alice", "bye");
  if (payload.includes('"left"')) setImmediate(() => client.end());
});
