//! Whose a function is: of which package that the program depends on, by where its source lies.

/// The package of a language's own library.
pub const STANDARD_LIBRARY: &str = "/rustc";

/// Where package managers put sources, and which folder behind it is the package's: that of cargo's registry comes
/// first. Node's and Python's are named by the innermost.
const PACKAGES: [(&str, usize); 6] = [
    ("/registry/src/", 1),
    ("/git/checkouts/", 0),
    ("/cargo/vendor/", 0),
    ("/site-packages/", 0),
    ("/dist-packages/", 0),
    ("/node_modules/", 0),
];
/// Go's cache of modules: `/pkg/mod/github.com/gin-gonic/gin@v1.10.0/context.go`.
const GO_MODULES: &str = "/pkg/mod/";

/// The package that a source file belongs to: its folder, [`STANDARD_LIBRARY`] for Rust's own library. `None`: the
/// program's own, or not known.
pub fn package_of(file: &str) -> Option<&str> {
    if file.starts_with("/rustc/") || file.contains("/rustlib/src/") {
        return Some(STANDARD_LIBRARY);
    }
    if let Some((_, path)) = file.rsplit_once(GO_MODULES) {
        let (module, version) = path.split_once('@')?;
        let version = version.split('/').next().unwrap_or_default();
        return path.get(..module.len() + 1 + version.len());
    }
    let inside = |(root, folder): &(&str, usize)| {
        let (_, path) = file.rsplit_once(root)?;
        path.split('/').nth(*folder)
    };
    PACKAGES.iter().find_map(inside)
}

#[cfg(test)]
mod tests {
    use super::package_of;

    #[test]
    fn a_source_is_of_the_package_in_whose_folder_it_lies() {
        let cases = [
            (
                "/root/.cargo/registry/src/index-1949cf8c6b5b557f/metrics-util-0.15.1/src/bucket.rs",
                Some("metrics-util-0.15.1"),
            ),
            (
                "/root/.cargo/git/checkouts/cache-1f2e/0a1b2c3/src/lib.rs",
                Some("cache-1f2e"),
            ),
            (
                "/rustc/0123/library/core/src/ops/function.rs",
                Some("/rustc"),
            ),
            (
                "/go/pkg/mod/github.com/gin-gonic/gin@v1.10.0/context.go",
                Some("github.com/gin-gonic/gin@v1.10.0"),
            ),
            (
                "/srv/venv/lib/python3.11/site-packages/httpx/_client.py",
                Some("httpx"),
            ),
            ("/srv/app/node_modules/a/node_modules/b/index.js", Some("b")),
            ("/srv/app/src/main.rs", None),
            ("/srv/app/handlers.py", None),
            ("/go/pkg/mod/cache", None),
            ("", None),
        ];
        for (file, package) in cases {
            assert_eq!(package_of(file), package, "{file}");
        }
    }
}
