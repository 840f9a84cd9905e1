// A client for a remote server: 09-client.ts http://127.0.0.1:8080 "Count to five". The client starts a
// detached run and follows the run to its end, across lost connections. It grants permission only to the tool `read`.
import { GantryClient, ApiError, SessionMirror, type WatchedEvent } from "gantry/client";

const [url = "http://127.0.0.1:8080", message = "Which files are here?"] = process.argv.slice(2);
const apiKey = process.env.GANTRY_KEY;
// The headers that `server.required_headers` requires.
const client = new GantryClient({ url, headers: apiKey ? { Authorization: `Bearer ${apiKey}` } : {} });
const mirror = new SessionMirror();

function show(event: WatchedEvent): void {
  mirror.apply(event);
  if (event.type === "message") {
    const { role, content } = event.message;
    console.log(`\n${role}: ${typeof content === "string" ? content : `${content.length} parts`}`);
  }
  if (event.type === "delta") process.stdout.write(event.content ?? "");
}

try {
  const { run_id, session_id } = await client.start({ message, mode: "ask", can_answer: true });
  for await (const event of client.sessions.watch(session_id, { canAnswer: true })) {
    show(event);
    if (event.type !== "state") continue;
    for (const { id, tool } of event.asks)
      await client.asks.answer(id, { choice: tool === "read" ? "allow" : "reject" });
    if (event.run?.id === run_id && event.run.ended_at !== "") break;
  }
  // A run that ended before the watch started is reported as ended in the first event: read its remaining messages.
  for await (const event of client.sessions.watch(session_id, { after: mirror.cursor, follow: false })) show(event);
  const { state, usage } = await client.runs.get(run_id);
  console.log(`\n${state}: ${mirror.messages.length} messages, ${usage.total_tokens} tokens`);
} catch (error) {
  if (!(error instanceof ApiError)) throw error;
  console.log(`${error.status} ${error.code}: ${error.message}`);
  process.exitCode = 1;
}
