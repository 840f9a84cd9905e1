/** Written instructions for tasks of one kind, which a model reads when it has one. */
export interface Skill {
  /** Unique in a session. */
  readonly name: string;
  /** One line, at most 200 characters; `""` where it says none. */
  readonly description: string;
  /** Whose word it is: the user's own, or that of the repository, for which nobody vouches. */
  readonly origin: "user" | "project";
  /** Absolute path of its folder, in which `SKILL.md` is. */
  readonly folder: string;
  /** Absolute path of the folder that no link of it leads out of. */
  readonly root: string;
}
