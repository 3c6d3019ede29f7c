//! One test for each state layer.

/// Makes one test for each state layer of each listed function, which takes the name of the layer. A new layer
/// needs a line here.
macro_rules! for_each_layer {
    ($($case:ident),* $(,)?) => {
        $crate::each_layer::for_each_layer!(@layer "binary" binary $($case)*);
        $crate::each_layer::for_each_layer!(@layer "lmpt" lmpt $($case)*);
        $crate::each_layer::for_each_layer!(@layer "lvmt" lvmt $($case)*);
        $crate::each_layer::for_each_layer!(@layer "mpt" mpt $($case)*);
        $crate::each_layer::for_each_layer!(@layer "mpt-hash" mpt_hash $($case)*);
        $crate::each_layer::for_each_layer!(@layer "nomt" nomt $($case)*);
        $crate::each_layer::for_each_layer!(@layer "qmdb" qmdb $($case)*);
        $crate::each_layer::for_each_layer!(@layer "rain" rain $($case)*);
        $crate::each_layer::for_each_layer!(@layer "raw" raw $($case)*);
        $crate::each_layer::for_each_layer!(@layer "replica" replica $($case)*);
    };
    (@layer $feature:literal $layer:ident $($case:ident)*) => {
        #[cfg(feature = $feature)]
        mod $layer {
            $(
                #[test]
                fn $case() {
                    super::$case($feature);
                }
            )*
        }
    };
}
pub(crate) use for_each_layer;
