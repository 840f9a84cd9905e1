/** A regular expression from a model. */
export interface Expression {
  pattern: string;
  ignoreCase: boolean;
}

/** Returns the flags with which the expression compiles, or the error of the compiler. */
export function compileExpression({ pattern, ignoreCase }: Expression): { flags: string } | { errorMessage: string } {
  let reason = "";
  // `u` supports \p{L} but rejects unnecessary escapes, which models often write.
  for (const unicodeFlag of ["u", ""]) {
    const flags = unicodeFlag + (ignoreCase ? "i" : "");
    try {
      new RegExp(pattern, flags);
      return { flags };
    } catch (error) {
      reason = (error as Error).message;
    }
  }
  return { errorMessage: reason };
}
