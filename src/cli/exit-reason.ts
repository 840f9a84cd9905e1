/** What a shell says of a process that a signal ended. */
export const ENDED_BY: Readonly<Record<string, number>> = { SIGHUP: 129, SIGINT: 130, SIGPIPE: 141, SIGTERM: 143 };
