//! What commands about the operator's own code share.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::Failure;
use crate::output::print;

/// Something new, made of templates.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// Its name, of letters, digits, - and _
    name: String,
    /// Folder to write to
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
}

/// A file that is looked at as the server would.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The file
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be made of templates.
pub(crate) struct Template {
    /// As the command calls it.
    pub(crate) command: &'static str,
    /// With its article.
    pub(crate) what: &'static str,
    pub(crate) example: &'static str,
    /// What the files are called behind the name, and what is in them.
    pub(crate) files: &'static [(&'static str, &'static str)],
}

impl New {
    /// Writes the files of the template; none of them if one is there.
    pub(crate) fn write(&self, template: &Template) -> Result<(), Failure> {
        self.write_files(template, template.files)
    }

    /// The same with these files in place of the template's.
    pub(crate) fn write_files(
        &self,
        template: &Template,
        files: &[(&str, &str)],
    ) -> Result<(), Failure> {
        let name = &self.name;
        check_name(name, template.what, template.example)?;
        let file = |ending: &str| format!("{name}.{ending}");
        for (ending, _) in files {
            let path = self.dir.join(file(ending));
            if path.exists() {
                return Err(is_there(&path, name, template.command));
            }
        }
        for (ending, text) in files {
            write(&self.dir, &file(ending), text)?;
        }
        Ok(())
    }
}

/// Nothing that is there is written over.
fn is_there(path: &Path, name: &str, command: &str) -> Failure {
    Failure::new(format!(
        "{} is there already, and stays as it is: give another name (`stentor {command} new \
         {name}-2`), another folder (--dir DIR), or remove the file first",
        path.display()
    ))
}

/// Whether something new can have this name, which a file gets.
fn check_name(name: &str, what: &str, example: &str) -> Result<(), Failure> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        let reason = format!(
            "{name:?} is not the name of {what}; give letters, digits, - and _, such as {example:?}"
        );
        return Err(Failure::new(reason));
    }
    Ok(())
}

/// Writes a file that is not there yet, and says where it is.
pub(crate) fn write(dir: &Path, file: &str, text: &str) -> Result<(), Failure> {
    let path = dir.join(file);
    let opened = OpenOptions::new().write(true).create_new(true).open(&path);
    match opened.and_then(|mut file| file.write_all(text.as_bytes())) {
        Ok(()) => print(format!("{}\n", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let dir = dir.display();
            Err(Failure::new(format!(
                "there is no folder {dir}; make it first (`mkdir -p {dir}`)"
            )))
        }
        Err(error) => {
            let path = path.display();
            Err(Failure::new(format!("cannot make {path}: {error}")))
        }
    }
}
