/** An invalid command line. Thrown before anything is started. The message is one line. */
export class UsageError extends Error {}
