/** Maximum characters of a body that are searched for a title. */
const MAX_SEARCHED_CHARACTERS = 256 * 1024;
const MAX_EXCERPT_CHARACTERS = 200;

/** Describes a body that is not an event stream, such as the page of a proxy or a login form. */
export function describeUnreadable(fullBody: string): string {
  const body = fullBody.slice(0, MAX_SEARCHED_CHARACTERS);
  if (looksLikeHtml(body)) return describeHtml(body);
  const text = body.trim();
  return text === ""
    ? "an empty answer"
    : `an answer that is not an event stream: ${text.slice(0, MAX_EXCERPT_CHARACTERS)}`;
}

/** Whether a body is an HTML page. */
export function looksLikeHtml(body: string): boolean {
  return /^\s*<(!doctype|html|head|body|\?xml)/i.test(body);
}

/** Error message for an HTML page. */
export function describeHtml(body: string): string {
  const title = /<title[^>]*>([^<]{1,120})/i.exec(body)?.[1]?.replace(/\s+/g, " ").trim();
  return `an HTML page instead of an API answer${title ? ` ("${title}")` : ""}; check base_url and the network`;
}
