// A process that starts the tests' own PostgreSQL server, tells its URL and waits to be killed.
import { postgresUrl } from "./postgres.js";

process.send?.(await postgresUrl());
setInterval(() => undefined, 60_000);
