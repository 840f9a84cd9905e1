/** Exit codes that shells use for a process ended by a signal. */
export const ENDED_BY: Readonly<Record<string, number>> = { SIGHUP: 129, SIGINT: 130, SIGPIPE: 141, SIGTERM: 143 };
