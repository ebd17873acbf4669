//! The fenced code blocks of a page, each with the mark above it.
//!
//! A mark is a comment on the line above a block (an empty line may stand between):
//! `<!-- tour -->` has a shell block run, `<!-- server -->` has its command run in the background,
//! as in a terminal of its own, `<!-- file: NAME -->` writes the block to a file that the commands
//! use, `<!-- part of: PATH -->` says in which file of the project the block is,
//! `<!-- output -->` says that the block before it prints this, and `<!-- not run: REASON -->` says
//! why nothing is done with it.

/// What a mark says about the block below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The commands are run.
    Tour,
    /// The command starts a server, which later commands use until `stentor stop`.
    Server,
    /// The block is the content of a file of this name.
    File(String),
    /// These lines are in this file of the project.
    PartOf(String),
    /// The commands before it print these lines.
    Output,
    /// Nothing is done with it, for a reason.
    NotRun,
}

impl Mark {
    fn read(line: &str) -> Option<Self> {
        let text = line.strip_prefix("<!-- ")?.strip_suffix(" -->")?;
        match text {
            "tour" => Some(Self::Tour),
            "server" => Some(Self::Server),
            "output" => Some(Self::Output),
            _ => {
                let named = |word| text.strip_prefix(word).filter(|rest| !rest.is_empty());
                if let Some(name) = named("file: ") {
                    return Some(Self::File(name.to_owned()));
                }
                if let Some(path) = named("part of: ") {
                    return Some(Self::PartOf(path.to_owned()));
                }
                named("not run: ").map(|_| Self::NotRun)
            }
        }
    }
}

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// The line of the opening fence, counted from 1.
    pub(crate) line: usize,
    /// The word behind the fence.
    pub(crate) language: String,
    pub(crate) mark: Option<Mark>,
    pub(crate) code: String,
}

impl Block {
    /// Whether `cargo xtask pages` runs it, so that output can follow.
    pub(crate) fn is_run(&self) -> bool {
        matches!(self.mark, Some(Mark::Tour | Mark::Server))
    }

    pub(crate) fn is_shell(&self) -> bool {
        matches!(self.language.as_str(), "sh" | "bash" | "shell" | "console")
    }

    /// Whether something could run or check it.
    pub(crate) fn is_code(&self) -> bool {
        let others = ["toml", "python", "js", "javascript", "lua", "luau"];
        self.is_shell() || others.contains(&self.language.as_str())
    }
}

/// The blocks of a page in their order, and the lines of marks that no block follows.
pub(crate) fn blocks(text: &str) -> (Vec<Block>, Vec<usize>) {
    let mut blocks = Vec::new();
    let mut stray = Vec::new();
    let mut mark: Option<(usize, Mark)> = None;
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if let Some(language) = line.strip_prefix("```") {
            let code: Vec<&str> = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| line.trim() != "```")
                .map(|line| line.get(indent..).unwrap_or_default())
                .collect();
            blocks.push(Block {
                line: index + 1,
                language: language.to_owned(),
                mark: mark.take().map(|(_, mark)| mark),
                code: code.join("\n"),
            });
        } else if let Some(read) = Mark::read(line) {
            stray.extend(mark.replace((index + 1, read)).map(|(line, _)| line));
        } else if !line.is_empty() {
            stray.extend(mark.take().map(|(line, _)| line));
        }
    }
    stray.extend(mark.map(|(line, _)| line));
    (blocks, stray)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_their_marks() {
        let text = "<!-- tour -->\n```sh\na\nb\n```\n\n<!-- output -->\n\n```text\nc\n```\n\
                    <!-- file: x.toml -->\n  ```toml\n  d = 1\n  ```\n```sh\ne\n```\n";
        let (found, stray) = blocks(text);
        let found: Vec<_> = found
            .iter()
            .map(|block| (block.line, block.mark.clone(), block.code.as_str()))
            .collect();
        let file = Mark::File("x.toml".to_owned());
        assert_eq!(
            found,
            [
                (2, Some(Mark::Tour), "a\nb"),
                (9, Some(Mark::Output), "c"),
                (13, Some(file), "d = 1"),
                (16, None, "e"),
            ]
        );
        assert_eq!(stray, [0; 0]);
    }

    #[test]
    fn marks_without_a_block_or_a_reason_are_found() {
        let (found, stray) = blocks("<!-- tour -->\ntext\n<!-- output -->\n<!-- tour -->\n");
        assert_eq!((found, stray), (Vec::new(), vec![1, 3, 4]));
        let (found, _) = blocks("<!-- not run: -->\n```sh\nx\n```\n");
        assert_eq!(found[0].mark, None);
    }
}
