/** An invalid command line. Nothing has been started. The message is one line. */
export class UsageError extends Error {}
