/** The only separator of messages; Unicode line separators are not. */
export const LINE_FEED = 0x0a;
