//! `Debug` for types that hold what cannot be shown, or is too large to be.

/// Implements `Debug` with the named fields and a sign that others are left out.
///
/// Generics are in brackets: `debug_fields!([T: Read] Reader[T] { path })` is for `Reader<T>`.
#[macro_export]
macro_rules! debug_fields {
    ($([$($generic:tt)*])? $name:ident $([$($of:tt)*])? { $($field:ident),* }) => {
        impl $(<$($generic)*>)? ::std::fmt::Debug for $name $(<$($of)*>)? {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(::std::stringify!($name))
                    $(.field(::std::stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
}
