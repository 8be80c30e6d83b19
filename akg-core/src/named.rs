//! Enumerations whose variants have names.

/// Defines an enumeration with a name for each variant, and `ALL`, `name()` and `FromStr` from one list.
macro_rules! named {
    ($(#[$about:meta])* pub enum $Enum:ident { $($(#[$meaning:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $Enum {
            $($(#[$meaning])* $variant,)*
        }

        impl $Enum {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The sign or name in texts.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl std::str::FromStr for $Enum {
            type Err = $crate::error::Error;

            fn from_str(text: &str) -> $crate::error::Result<Self> {
                let found = Self::ALL.iter().copied().find(|one| one.name() == text);
                found.ok_or_else(|| {
                    $crate::error::Error::invalid(format!("`{text}` is the name of no {}", stringify!($Enum)))
                })
            }
        }
    };
}

pub(crate) use named;
