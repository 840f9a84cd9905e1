// A process that subscribes to a chain and does nothing else. Usage: <url>
import { Connections } from "../../adapters/postgres-driver/connections.js";
import { PostgresNotifier } from "../../adapters/postgres-driver/listener.js";

const pool = { size: 2, connectTimeout: 5, idleTimeout: 60, statementTimeout: 5 };
const connections = new Connections({ url: process.argv[2] ?? "", pool });
await connections.open(() => Promise.resolve());
const notifier = new PostgresNotifier(connections, "ends", {
  address: connections.address,
  readStates: () => Promise.resolve(new Map()),
});
notifier.subscribe("root", () => undefined);
notifier.publish("root");
// The notifier connects and polls in this time. None of that may keep the process alive afterwards.
await connections.query("SELECT pg_sleep(0.3)", [], "read");
process.disconnect?.();
