import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { findTypedPatch } from "../../../../src/tools/dialects/typed-patch.js";

const PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-it's $HOME\n+`x` \\ y\n*** End Patch";
const inFolder = (folder: string) => PATCH.replace("a.txt", `${folder}/a.txt`);

describe("findTypedPatch()", () => {
  for (const [line, expected] of [
    [`apply_patch <<'EOF'\n${PATCH}\nEOF`, PATCH],
    [`apply_patch << "PATCH"\n${PATCH}\nPATCH\n`, PATCH],
    [`applypatch <<EOF\r\n${PATCH.replaceAll("\n", "\r\n")}\r\nEOF`, PATCH],
    [`cat <<'EOF' | apply_patch\n${PATCH}\nEOF`, PATCH],
    [`apply_patch "$(cat <<'EOF'\n${PATCH}\nEOF\n)"`, PATCH],
    [`apply_patch '${PATCH.replaceAll("'", "'\\''")}'`, PATCH],
    [`cd src && apply_patch <<'EOF'\n${PATCH}\nEOF`, inFolder("src")],
    [`cd 'my src' && apply_patch <<'EOF'\n${PATCH}\nEOF`, inFolder("my src")],
    [`cd /p && apply_patch <<'EOF'\n${PATCH}\nEOF`, inFolder("/p")],
    // Anything besides the patch would be lost.
    [`apply_patch <<'EOF'\n${PATCH}\nEOF\nnpm test`, undefined],
    [`apply_patch <<'EOF' && npm test\n${PATCH}\nEOF`, undefined],
    [`npm run build && apply_patch <<'EOF'\n${PATCH}\nEOF`, undefined],
    [`cd src; apply_patch <<'EOF'\n${PATCH}\nEOF`, undefined],
    [`cd "$DIR" && apply_patch <<'EOF'\n${PATCH}\nEOF`, undefined],
    [`cd ~/src && apply_patch <<'EOF'\n${PATCH}\nEOF`, undefined],
    [`apply_patch <<'EOF'\n${PATCH}`, undefined],
    [`apply_patch <<'EOF'\nno patch\nEOF`, undefined],
    [`apply_patch '${PATCH}'`, undefined],
    [`apply_patch <<EOF\n${PATCH}\nEOF\nrm x\ncat <<EOF\nEOF`, undefined],
    [`cat > doc.md <<'EOF'\napply_patch <<'X'\n${PATCH}\nX\nEOF`, undefined],
    [`cat <<'EOF' > patch.txt\n${PATCH}\nEOF`, undefined],
    ["apply_patch patch.txt", undefined],
  ] as const)
    it(`${expected === undefined ? "leaves" : "finds the patch of"} ${JSON.stringify(line.slice(0, 60))}`, () =>
      assert.equal(findTypedPatch(line, undefined), expected));

  it("makes relative paths relative to the folder of the command", () => {
    const line = `apply_patch <<'EOF'\n${PATCH}\nEOF`;
    assert.equal(findTypedPatch(line, "w"), inFolder("w"));
    assert.equal(findTypedPatch(`cd ../x && ${line}`, "w/v"), inFolder("w/x"));
    assert.equal(findTypedPatch(line.replace("a.txt", "/abs/a.txt"), "w"), PATCH.replace("a.txt", "/abs/a.txt"));
  });

  it("takes linear time", () => {
    const line = `apply_patch <<'EOF'\n*** Begin Patch\n${`+${" ".repeat(99)}\n`.repeat(20_000)}`;
    assert.equal(findTypedPatch(line, undefined), undefined);
  });
});
