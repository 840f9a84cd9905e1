/** Byte that separates messages. Unicode line separators do not separate messages. */
export const LINE_FEED = 0x0a;
