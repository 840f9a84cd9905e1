/**
 * ESLint rules that keep comments and names in plain technical English. They reject the openings, words and bare names
 * that made comments hard to read before version 0.1.0.
 */

/** First words of a comment, or of a sentence in it, that hide the subject. */
const FORBIDDEN_OPENING =
  /(?:^|[.!?] )(?:Of|Those|That of|Who|Whoever|Whose|What|Whatever|So (?:many|much|long|often)|Which)\b/;
const FORBIDDEN_WORD =
  /\b(?:told|tells|said|goes on|gone on|went on|nobody|somebody|anybody|whoever|by itself|by themselves|heeds?|lets go|for ever)\b/i;
/** Participles, pronouns and adverbs that say nothing about the value. */
const FORBIDDEN_NAMES = new Set(
  "told said given known found kept asked brought spent wanted own whole rest one ones some other others mine here theirs".split(
    " ",
  ),
);

/** Returns the openings and words of a comment's text that the rules reject. */
export function commentFaults(comment) {
  const text = comment
    .replace(/\s*\n\s*\*?\s*/g, " ")
    .replace(/^\*?\s*/, "")
    .replace(/`[^`]*`|"[^"]*"/g, "x");
  const matches = { opening: FORBIDDEN_OPENING.exec(text)?.[0], word: FORBIDDEN_WORD.exec(text)?.[0] };
  return Object.entries(matches).filter(([, match]) => match !== undefined);
}

const commentRule = {
  meta: {
    type: "suggestion",
    schema: [],
    messages: {
      opening: "begin with the subject, not with “{{text}}”",
      word: "use the term of the field, not “{{text}}”",
    },
  },
  create: ({ sourceCode, report }) => {
    const check = (loc, comment) => {
      for (const [messageId, text] of commentFaults(comment)) report({ loc, messageId, data: { text } });
    };
    return {
      Program: () => sourceCode.getAllComments().forEach(({ loc, value }) => check(loc, value)),
      // SQL in template strings.
      TemplateElement: ({ loc, value }) =>
        [...value.raw.matchAll(/^\s*-- (.*)$/gm)].forEach(([, line]) => check(loc, line)),
    };
  },
};

const nameRule = {
  meta: { type: "suggestion", schema: [], messages: { bare: "name the value with a noun, not “{{name}}”" } },
  create: ({ report }) => {
    const checkName = (node) => {
      if (node?.type === "Identifier" && FORBIDDEN_NAMES.has(node.name))
        report({ node, messageId: "bare", data: { name: node.name } });
    };
    const checkPattern = (node) => {
      if (!node) return;
      if (node.type === "Identifier") checkName(node);
      else if (node.type === "ObjectPattern")
        node.properties.forEach((property) => checkPattern(property.value ?? property.argument));
      else if (node.type === "ArrayPattern") node.elements.forEach(checkPattern);
      else if (node.type === "AssignmentPattern") checkPattern(node.left);
      else if (node.type === "RestElement") checkPattern(node.argument);
      else if (node.type === "TSParameterProperty") checkPattern(node.parameter);
    };
    const checkParameters = (node) => node.params.forEach(checkPattern);
    return {
      VariableDeclarator: (node) => checkPattern(node.id),
      FunctionDeclaration: (node) => (checkName(node.id), checkParameters(node)),
      FunctionExpression: checkParameters,
      ArrowFunctionExpression: checkParameters,
      "MethodDefinition, PropertyDefinition, TSPropertySignature, TSMethodSignature": (node) => checkName(node.key),
    };
  },
};

export const plainLanguage = { rules: { comments: commentRule, names: nameRule } };
