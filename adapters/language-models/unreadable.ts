/** Enough of a body to read a title in it. */
const SHOWN = 256 * 1024;

/** Why an answer is no stream of chunks: a page of a proxy, a log-in form, a wrong URL. */
export function whyUnreadable(whole: string): string {
  const body = whole.slice(0, SHOWN);
  if (looksLikeHtml(body)) return htmlMessage(body);
  const text = body.trim();
  return text === "" ? "an empty answer" : `an answer that is no event stream: ${text.slice(0, 200)}`;
}

/** Whether a body is a page for people. */
export function looksLikeHtml(body: string): boolean {
  return /^\s*<(!doctype|html|head|body|\?xml)/i.test(body);
}

/** What is said of such a page. */
export function htmlMessage(body: string): string {
  const title = /<title[^>]*>([^<]{1,120})/i.exec(body)?.[1]?.replace(/\s+/g, " ").trim();
  return `an HTML page instead of an API answer${title ? ` ("${title}")` : ""}; check base_url and the network`;
}
