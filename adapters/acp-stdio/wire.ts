/** Ends a message; nothing else does, whatever Unicode says of line ends. */
export const LINE_FEED = 0x0a;
