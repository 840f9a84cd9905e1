/** Returns the reason of an error on one line, without the container's description of the class and parameter. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const message = error.message.replace(/^(\s*Cannot inject the dependency .* Reason:\n)+/, "");
  return message.replace(/\s*\n\s*/g, " ").trim() || error.name;
}
