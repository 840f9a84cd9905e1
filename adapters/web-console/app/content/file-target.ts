/** Attribute with the target of a Markdown link that is no URL. It may be the path of a file. */
export const FILE_TARGET_ATTRIBUTE = "data-file";
