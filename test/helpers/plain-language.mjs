/**
 * ESLint rules that keep comments and names in plain technical English. They reject the openings, words and bare names
 * that made comments hard to read before version 0.1.0.
 */

/** First words of a comment, or of a sentence in it, that hide the subject. */
const OPENING = /(?:^|[.!?] )(?:Of|Those|That of|Who|Whoever|Whose|What|Whatever|So (?:many|much|long|often)|Which)\b/;
const WORD =
  /\b(?:told|tells|said|goes on|gone on|went on|nobody|somebody|anybody|whoever|by itself|by themselves|heeds?|lets go|for ever)\b/i;
/** Participles, pronouns and adverbs that say nothing about the value. `left` and `right` of a pair are allowed. */
const BARE = new Set(
  "told said given known found kept asked brought spent wanted own whole rest one ones some other others mine here theirs".split(
    " ",
  ),
);

const comments = {
  meta: {
    type: "suggestion",
    schema: [],
    messages: {
      opening: "begin with the subject, not with “{{text}}”",
      word: "use the term of the field, not “{{text}}”",
    },
  },
  create: ({ sourceCode, report }) => ({
    Program() {
      for (const comment of sourceCode.getAllComments()) {
        const text = comment.value
          .replace(/\s*\n\s*\*?\s*/g, " ")
          .replace(/^\*?\s*/, "")
          .replace(/`[^`]*`|"[^"]*"/g, "x");
        const [opening] = OPENING.exec(text) ?? [];
        const [word] = WORD.exec(text) ?? [];
        if (opening) report({ loc: comment.loc, messageId: "opening", data: { text: opening } });
        if (word) report({ loc: comment.loc, messageId: "word", data: { text: word } });
      }
    },
  }),
};

const names = {
  meta: { type: "suggestion", schema: [], messages: { bare: "name the value with a noun, not “{{name}}”" } },
  create: ({ report }) => {
    const check = (node) => {
      if (node?.type === "Identifier" && BARE.has(node.name))
        report({ node, messageId: "bare", data: { name: node.name } });
    };
    const pattern = (node) => {
      if (!node) return;
      if (node.type === "Identifier") check(node);
      else if (node.type === "ObjectPattern")
        node.properties.forEach((property) => pattern(property.value ?? property.argument));
      else if (node.type === "ArrayPattern") node.elements.forEach(pattern);
      else if (node.type === "AssignmentPattern") pattern(node.left);
      else if (node.type === "RestElement") pattern(node.argument);
      else if (node.type === "TSParameterProperty") pattern(node.parameter);
    };
    const parameters = (node) => node.params.forEach(pattern);
    return {
      VariableDeclarator: (node) => pattern(node.id),
      FunctionDeclaration: (node) => (check(node.id), parameters(node)),
      FunctionExpression: parameters,
      ArrowFunctionExpression: parameters,
      "MethodDefinition, PropertyDefinition, TSPropertySignature, TSMethodSignature": (node) => check(node.key),
    };
  },
};

export const plainLanguage = { rules: { comments, names } };
