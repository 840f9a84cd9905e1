/** A regular expression as a model gives it. */
export interface Expression {
  pattern: string;
  ignoreCase: boolean;
}

/** Flags with which it compiles. */
export function compileExpression({ pattern, ignoreCase }: Expression): { flags: string } | { refused: string } {
  let fault = "";
  // `u` knows \p{L}, but is strict about escapes that models write out of habit.
  for (const unicode of ["u", ""]) {
    const flags = unicode + (ignoreCase ? "i" : "");
    try {
      new RegExp(pattern, flags);
      return { flags };
    } catch (error) {
      fault = (error as Error).message;
    }
  }
  return { refused: fault };
}
