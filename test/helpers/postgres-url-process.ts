// A process that starts the tests' PostgreSQL server, reports its URL and waits until it is killed.
import { getPostgresUrl } from "./postgres.js";

process.send?.(await getPostgresUrl());
setInterval(() => undefined, 60_000);
