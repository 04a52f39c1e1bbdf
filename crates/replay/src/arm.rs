//! An allocator with its settings, as a replay runs on it.

use std::path::Path;

use allocators::{Library, Recipe};

/// One of an allocator's own settings: its name there, and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub key: String,
    pub value: String,
}

/// Why a setting is none.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SettingError {
    #[error("{0:?} is no setting; write ALLOCATOR:KEY=VALUE, such as jemalloc:dirty_decay_ms=1000")]
    Form(String),
    #[error("{allocator} has no setting {key:?}; it has {known}")]
    Unknown {
        allocator: String,
        key: String,
        known: String,
    },
}

impl Setting {
    /// `ALLOCATOR:KEY=VALUE,VALUE`: the allocator, and a setting for each value.
    ///
    /// # Errors
    /// It has another form.
    pub fn parse(text: &str) -> Result<(String, Vec<Setting>), SettingError> {
        let wrong = || SettingError::Form(text.to_owned());
        let (allocator, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (key, values) = rest.split_once('=').ok_or_else(wrong)?;
        if allocator.is_empty() || key.is_empty() || values.is_empty() {
            return Err(wrong());
        }
        let setting = |value: &str| Setting {
            key: key.to_owned(),
            value: value.to_owned(),
        };
        Ok((
            allocator.to_owned(),
            values.split(',').map(setting).collect(),
        ))
    }

    /// As a variable of the environment: the allocator's own, or a list of pairs that holds the key.
    ///
    /// # Errors
    /// The allocator is known, and reads no such setting.
    pub fn variable(
        &self,
        recipe: Option<&Recipe>,
        name: &str,
    ) -> Result<(String, String), SettingError> {
        let Some(recipe) = recipe else {
            return Ok((self.key.clone(), self.value.clone()));
        };
        let tunables = &recipe.tunables;
        if let Some(list) = tunables
            .lists
            .iter()
            .find(|list| list.keys.contains(&self.key))
        {
            return Ok((
                list.variable.clone(),
                format!("{}{}{}", self.key, list.assign, self.value),
            ));
        }
        if tunables.variables.contains(&self.key) {
            return Ok((self.key.clone(), self.value.clone()));
        }
        let keys = tunables.lists.iter().flat_map(|list| &list.keys);
        let mut known: Vec<&str> = keys
            .chain(&tunables.variables)
            .map(String::as_str)
            .collect();
        known.sort_unstable();
        let known = match known.is_empty() {
            true => "none".to_owned(),
            false => known.join(", "),
        };
        Err(SettingError::Unknown {
            allocator: name.to_owned(),
            key: self.key.clone(),
            known,
        })
    }
}

/// What a replay runs on.
#[derive(Clone, Debug)]
pub struct Arm {
    /// As it is printed: the allocator, and its settings.
    pub name: String,
    pub library: Library,
    pub environment: Vec<(String, String)>,
}

impl Arm {
    /// An allocator as it comes; a library of the user's own by its file's name.
    pub fn plain(library: Library) -> Arm {
        Arm {
            name: shown(&library),
            library,
            environment: Vec::new(),
        }
    }

    /// With settings. Pairs of one variable, such as `MALLOC_CONF`, are joined in it.
    ///
    /// # Errors
    /// The allocator reads no such setting.
    pub fn with(
        library: Library,
        recipe: Option<&Recipe>,
        settings: &[Setting],
    ) -> Result<Arm, SettingError> {
        let mut name = shown(&library);
        let mut environment: Vec<(String, String)> = Vec::new();
        for setting in settings {
            let (variable, value) = setting.variable(recipe, &library.spec)?;
            name.push_str(&format!(" {}={}", setting.key, setting.value));
            let lists = recipe.map_or(&[][..], |recipe| &recipe.tunables.lists);
            let list = lists.iter().find(|list| list.variable == variable);
            let there = environment.iter_mut().find(|(name, _)| *name == variable);
            match (there, list) {
                (Some((_, values)), Some(list)) => {
                    values.push(list.between);
                    values.push_str(&value);
                }
                (Some((_, values)), None) => *values = value,
                (None, _) => environment.push((variable, value)),
            }
        }
        Ok(Arm {
            name,
            library,
            environment,
        })
    }

    /// Why an object that answered malloc is not this arm's; `None`: it is.
    pub fn is_other(&self, malloc_path: &str) -> bool {
        let same = |a: &Path, b: &Path| match (a.canonicalize(), b.canonicalize()) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        };
        match &self.library.path {
            Some(path) => !same(path, Path::new(malloc_path)),
            None => {
                let file = malloc_path.rsplit('/').next().unwrap_or(malloc_path);
                !(file.starts_with("libc.so") || file.starts_with("libc-2."))
            }
        }
    }
}

fn shown(library: &Library) -> String {
    let name = library.spec.rsplit('/').next();
    name.unwrap_or(&library.spec).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(name: &str) -> &'static Recipe {
        allocators::catalogue()
            .iter()
            .find(|recipe| recipe.name == name)
            .unwrap()
    }

    #[test]
    fn a_setting_becomes_a_variable() {
        let (allocator, settings) = Setting::parse("jemalloc:dirty_decay_ms=0,1000").unwrap();
        assert_eq!((allocator.as_str(), settings.len()), ("jemalloc", 2));
        let variable = settings[1]
            .variable(Some(recipe("jemalloc")), "jemalloc@5.3.0")
            .unwrap();
        assert_eq!(
            variable,
            ("MALLOC_CONF".to_owned(), "dirty_decay_ms:1000".to_owned())
        );
        let (_, settings) = Setting::parse("glibc:MALLOC_ARENA_MAX=2").unwrap();
        let variable = settings[0]
            .variable(Some(recipe("glibc")), "glibc")
            .unwrap();
        assert_eq!(variable, ("MALLOC_ARENA_MAX".to_owned(), "2".to_owned()));
    }

    #[test]
    fn settings_of_one_variable_are_joined() {
        let setting = |key: &str, value: &str| Setting {
            key: key.to_owned(),
            value: value.to_owned(),
        };
        let recipe = recipe("jemalloc");
        let settings = [setting("dirty_decay_ms", "0"), setting("narenas", "2")];
        let arm = Arm::with(Library::described(recipe), Some(recipe), &settings).unwrap();
        let joined = "dirty_decay_ms:0,narenas:2".to_owned();
        assert_eq!(arm.environment, [("MALLOC_CONF".to_owned(), joined)]);
        assert!(
            arm.name.ends_with(" dirty_decay_ms=0 narenas=2"),
            "{}",
            arm.name
        );
    }

    #[test]
    fn what_no_allocator_reads_is_refused() {
        for text in ["jemalloc", "jemalloc:x", ":x=1", "glibc:=2", "glibc:x="] {
            assert_eq!(
                Setting::parse(text),
                Err(SettingError::Form(text.to_owned()))
            );
        }
        let (_, settings) = Setting::parse("glibc:arenas=2").unwrap();
        let error = settings[0]
            .variable(Some(recipe("glibc")), "glibc")
            .unwrap_err();
        assert!(error.to_string().contains("MALLOC_ARENA_MAX"), "{error}");
    }
}
