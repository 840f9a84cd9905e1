// A process that starts the tests' PostgreSQL server, reports its URL and waits until it is killed.
import { postgresUrl } from "./postgres.js";

process.send?.(await postgresUrl());
setInterval(() => undefined, 60_000);
