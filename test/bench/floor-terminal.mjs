// Reference for a terminal: it draws one input line again after each key. The process exits at Ctrl+D.
process.stdin.setRawMode(true);
let text = "";
const draw = () => process.stdout.write(`\u001b[?2026h\u001b[1;1H\u001b[K> ${text}\u001b[?2026l`);
process.stdin.setEncoding("utf8").on("data", (keys) => {
  for (const key of keys) {
    if (key === "\u0004") process.exit();
    // Ctrl+U removes the line.
    text = key === "\u0015" ? "" : text + key;
  }
  draw();
});
process.stdout.write("Type a prompt");
