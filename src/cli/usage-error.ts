/** The command line is wrong, and nothing was begun. One line. */
export class UsageError extends Error {}
